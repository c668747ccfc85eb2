/** A Prometheus of its own for a test: it scrapes one gateway, evaluates rules, and ends with the test. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { stringify } from 'yaml'

export interface PrometheusOptions {
  /** URL of the gateway to scrape. */
  readonly target: string
  readonly rulesFile: string
  /** Interval of scrapes and evaluations, as Prometheus writes durations. */
  readonly interval: string
  /** Age at which a sample is no longer used. @defaultValue Prometheus' own, `5m` */
  readonly lookback?: string
}

export interface Prometheus {
  /** Asks a path below /api/v1/. */
  ask<T>(path: string): Promise<T>
  /** Evaluates an expression now. */
  query(expression: string): Promise<readonly unknown[]>
  /** Names of the alerts that fire now. */
  firing(): Promise<readonly string[]>
}

/** Bound of the wait for the first answer. */
const startMsMax = 20_000

export async function startPrometheus(
  t: Pick<TestContext, 'after'>,
  { target, rulesFile, interval, lookback }: PrometheusOptions,
): Promise<Prometheus> {
  const command = join(dirname(process.env.SLUICE_TEST_PROMTOOL!), 'prometheus')
  const folder = mkdtempSync(join(tmpdir(), 'sluice-prometheus-'))
  const port = await freePort()
  writeFileSync(
    join(folder, 'prometheus.yaml'),
    stringify({
      global: { scrape_interval: interval, scrape_timeout: interval, evaluation_interval: interval },
      rule_files: [rulesFile],
      scrape_configs: [{ job_name: 'sluice', static_configs: [{ targets: [new URL(target).host] }] }],
    }),
  )
  const server = spawn(
    command,
    [
      `--config.file=${join(folder, 'prometheus.yaml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      ...(lookback === undefined ? [] : [`--query.lookback-delta=${lookback}`]),
    ],
    { stdio: 'ignore' },
  )
  t.after(async () => {
    const ended = new Promise((resolve) => server.once('exit', resolve))
    server.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true, force: true })
  })

  async function ask<T>(path: string): Promise<T> {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)
    const { status, data, error } = (await answer.json()) as { status: string; data: T; error?: string }
    assert.equal(status, 'success', `${path}: ${error}`)
    return data
  }
  const untilMs = performance.now() + startMsMax
  while ((await ask('query?query=1').catch(() => undefined)) === undefined) {
    assert.ok(server.exitCode === null && performance.now() < untilMs, 'Prometheus does not start')
    await sleep(50)
  }
  return {
    ask,
    query: async (expression) =>
      (await ask<{ result: unknown[] }>(`query?query=${encodeURIComponent(expression)}`)).result,
    async firing() {
      const { alerts } = await ask<{ alerts: { state: string; labels: { alertname: string } }[] }>('alerts')
      const names = alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname)
      return [...new Set(names)].sort()
    },
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}
