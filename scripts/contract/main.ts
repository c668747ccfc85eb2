/**
 * `npm run contract`: the published OpenAPI document against a running gateway, by tools that know nothing of Sluice.
 * redocly and Spectral lint it; schemathesis makes requests of the document, good and bad ones, and holds every answer against it; openapi-typescript
 * makes types of it, which must compile where a client uses them. Both are fetched when they are first needed.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readArguments } from '../runner/arguments.ts'
import { freePort } from '../services/port.ts'
import { checkTypes } from './client-types.ts'
import { lintDescriptions } from './lint.ts'
import { runSchemathesis } from './schemathesis.ts'

const usage = `Usage: npm run contract -- [options]
  --cases <number>   at least so many requests (10,000)
  --seed <number>    the seed of what is generated (1)
  --only <regex>     only operations whose path fits, each with so many cases
  --minutes <number> stops schemathesis when it has not ended by then (60)
  --no-requests      only the linters and the generated types, without generated requests`

const launcher = fileURLToPath(new URL('../../packages/gateway/bin/sluice.js', import.meta.url))
const readyMsMax = 30_000

interface Running {
  readonly url: string
  /** How it ended, where it should not have. */
  ended(): string | undefined
  log(): string
  stop(): Promise<void>
}

/** A gateway as its users start it, on a folder of its own. */
async function startGateway(folder: string): Promise<Running> {
  const port = await freePort()
  const config = {
    http: { port },
    store: 'sqlite:./sluice.db',
    tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 1_000_000 } },
    log: { level: 'error' },
  }
  writeFileSync(join(folder, 'sluice.yaml'), JSON.stringify(config))
  const child = spawn(process.execPath, [launcher, 'serve', '--config', join(folder, 'sluice.yaml')], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let log = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
  let end: string | undefined
  const gone = new Promise<void>((resolve) => {
    child.on('exit', (code, signal) => {
      end = `code ${code}, signal ${signal}`
      resolve()
    })
  })
  const url = `http://127.0.0.1:${port}`
  const until = performance.now() + readyMsMax
  while (!(await fetch(`${url}/readyz`).catch(() => undefined))?.ok) {
    if (end !== undefined || performance.now() > until) throw new Error(`the gateway is not ready:\n${log}`)
    await sleep(50)
  }
  return {
    url,
    ended: () => end,
    log: () => log,
    async stop() {
      child.kill('SIGTERM')
      await gone
    },
  }
}

/** Errors that it logged: a 5xx of its own, which a declared one would hide. */
function troubles(log: string): readonly string[] {
  return log
    .split('\n')
    .filter((line) => line.startsWith('{') && (JSON.parse(line) as { level: number }).level >= 50)
}

async function main(): Promise<number> {
  const { values } = readArguments(usage, {
    cases: { type: 'string' },
    seed: { type: 'string' },
    only: { type: 'string' },
    minutes: { type: 'string' },
    'no-requests': { type: 'boolean' },
  })
  const folder = mkdtempSync(join(tmpdir(), 'sluice-contract-'))
  const gateway = await startGateway(folder)
  const failures: string[] = []
  try {
    const document = `${gateway.url}/openapi.json`
    failures.push(...(await lintDescriptions(gateway.url, folder)))
    failures.push(...(await checkTypes(document, folder)))
    if (values['no-requests'] === true) return report(failures)
    const cases = Number(values.cases ?? 10_000)
    const [seed, minutes] = [Number(values.seed ?? 1), Number(values.minutes ?? 60)]
    const only = values.only === undefined ? {} : { only: values.only }
    failures.push(...(await runSchemathesis({ document, cases, seed, ...only, minutes, folder })))
    if (gateway.ended() !== undefined) failures.push(`the gateway ended: ${gateway.ended()}`)
    const [trouble] = troubles(gateway.log())
    if (trouble !== undefined) failures.push(`the gateway logged an error: ${trouble}`)
  } finally {
    await gateway.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  return report(failures)
}

function report(failures: readonly string[]): number {
  for (const failure of failures) console.error(`✖ ${failure}`)
  if (failures.length === 0) console.log('✔ the document and the gateway agree')
  return failures.length === 0 ? 0 : 1
}

process.exitCode = await main()
