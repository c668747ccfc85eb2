/**
 * Alert rules and dashboard on a real gateway: promtool tests every alert, a Prometheus scrapes a gateway with some
 * traffic, and each expression of rules and panels that the traffic makes data for has a result there.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parse } from 'yaml'
import { dashboard } from '../../../../scripts/dashboard/dashboard.ts'
import { panels, selected } from '../../../../scripts/dashboard/panels.ts'
import { needs } from '../../../../scripts/services/needs.ts'
import { startPrometheus } from '../alerts/prometheus.ts'
import { root, rules, rulesFile } from '../alerts/rules.ts'
import { createSite } from '../child.ts'

const testsFile = join(root, 'deploy/prometheus/sluice.rules.test.yaml')
const alerts = rules.filter(({ alert }) => alert !== undefined)

test(
  'promtool finds the rules valid, and each alert fires and stays silent as its tests say',
  needs('promtool'),
  () => {
    for (const [command, file] of [
      ['check', rulesFile],
      ['test', testsFile],
    ] as const) {
      const { status, stdout, stderr } = spawnSync(
        process.env.SLUICE_TEST_PROMTOOL!,
        [command, 'rules', file],
        { encoding: 'utf8' },
      )
      assert.equal(status, 0, stdout + stderr)
    }
  },
)

test('every alert has a test in which it fires, one in which it does not, and a runbook', () => {
  const { tests } = parse(readFileSync(testsFile, 'utf8')) as {
    tests: { alert_rule_test: { alertname: string; exp_alerts: object[] }[] }[]
  }
  const cases = tests.flatMap((each) => each.alert_rule_test)
  const runbooks = readFileSync(join(root, 'docs/operate/runbooks.md'), 'utf8')
  for (const { alert, annotations } of alerts) {
    const own = cases.filter(({ alertname }) => alertname === alert)
    assert.ok(
      own.some(({ exp_alerts }) => exp_alerts.length > 0),
      `${alert} never fires in a test`,
    )
    // An alert whose test has two series fires for one of them and stays silent for the other.
    const inputs = tests.filter(({ alert_rule_test }) =>
      alert_rule_test.some(({ alertname }) => alertname === alert),
    )
    const silent = own.some(({ exp_alerts }) => exp_alerts.length === 0)
    assert.ok(silent || JSON.stringify(inputs).includes('instance=\\"b\\"'), `${alert} is never silent`)
    const anchor = annotations!.runbook.split('#')[1]!
    const headings = [...runbooks.matchAll(/^## (.+)$/gm)].map(([, text]) =>
      text!.toLowerCase().replaceAll(' ', '-'),
    )
    assert.ok(headings.includes(anchor), `no runbook for ${alert}`)
  }
})

test('the dashboard is that of the table of panels; if not, `node scripts/dashboard/dashboard.ts` writes it', () => {
  assert.equal(readFileSync(join(root, 'deploy/grafana/sluice.json'), 'utf8'), dashboard())
})

/** Gauges that every gateway tells for all that share its store, and its state. */
const sharedGauges = [
  'sluice_notifications',
  'sluice_waiting',
  'sluice_due_within',
  'sluice_dead_letters',
  'sluice_accounts',
  'sluice_pool_rate_per_second',
]

test('no panel adds up what gateways that share a store all tell', () => {
  for (const { title, expression } of panels)
    for (const name of sharedGauges)
      for (const [use] of expression.matchAll(new RegExp(`[\\w() ,]*\\(${name}\\{`, 'g')))
        assert.match(use, new RegExp(`\\bmax( by \\([\\w, ]+\\) )?\\(${name}\\{$`), title)
})

/** The recording rules need an hour. */
const emptyInPeace = /^sluice:/

test(
  'a Prometheus that scrapes a gateway has data for every panel and fires no alert',
  needs('promtool', 'redis'),
  async (t) => {
    const pools = { email: { provider: 'sandbox', accounts: [{ id: 'a', rate: '100/s' }] } }
    const complaints = { pauseAt: '0.1%', categories: ['marketing'] }
    // Nothing listens at the last two: their metrics are told all the same.
    const engines = {
      state: `${process.env.SLUICE_TEST_REDIS}?prefix=deploy-${process.pid}:`,
      queue: 'amqp://guest:guest@127.0.0.1:9',
      deliveryLog: 'cassandra://127.0.0.1:9/sluice',
    }
    const site = await createSite(t, {
      policy: { version: 1, limits: [], complaints },
      config: { pools, ...engines },
    })
    await site.start()
    const { ask, query } = await startPrometheus(t, { target: site.url, rulesFile, interval: '1s' })

    // Traffic over some scrapes, so that rates have two samples.
    const untilMs = performance.now() + 30_000
    const isScraped = async () =>
      (await query('changes(sluice_accepted_total[10s]) > 0').catch(() => [])).length > 0
    do {
      await site.call('POST', '/api/v1/notifications', {
        recipient: { id: 'ada', email: 'ada@example.com' },
        channel: 'email',
        content: { subject: 'x', text: `${performance.now()}` },
      })
      await site.call('GET', '/api/v1/nothing')
      await sleep(300)
    } while (!(await isScraped()) && performance.now() < untilMs)

    // A gateway over PostgreSQL tells the last one in place of the room on its disk.
    const known = new Set([...(await ask<string[]>('label/__name__/values')), 'sluice_store_up'])
    for (const { title, expression } of panels) {
      const asked = selected(expression)
        .replaceAll('$instance', '.*')
        .replaceAll('$channel', '.*')
        .replaceAll('$__rate_interval', '10s')
      const result = await query(asked)
      if (!emptyInPeace.test(asked)) assert.ok(result.length > 0, `${title} is empty: ${asked}`)
      checkNames(asked, known)
    }
    for (const { expr } of rules) {
      await query(expr)
      checkNames(expr, known)
    }
    assert.deepEqual(await query('ALERTS{alertstate="firing"}'), [])
  },
)

/** Fails for a metric that no gateway has. Recording rules and `up` are Prometheus' own. */
function checkNames(expression: string, known: ReadonlySet<string>): void {
  const unlabelled = expression.replaceAll(/\{[^}]*\}|"[^"]*"/g, '')
  for (const [name] of unlabelled.matchAll(/\b(?:sluice_|nodejs_|process_)\w+/g))
    assert.ok(known.has(name) || known.has(`${name}_count`), `${name} in ${expression} is no metric`)
}
