/**
 * The proofs of a fleet on real engines, by name: tests of the suite, small as `npm test` runs them or with the figures that
 * a release is held to, and the proofs of bench/fleet-proofs. `npm run check:fleet` runs them one by one, a line each.
 */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { proofs } from '../../../../bench/fleet-proofs/proofs.ts'
import {
  fetchPostgresPrograms,
  type PostgresVersion,
} from '../../../../scripts/services/postgres-programs.ts'

export type Scale = 'small' | 'full'

export interface Step {
  readonly name: string
  readonly shows: string
  readonly engines: readonly string[]
  /** Path or pattern of tests within packages/gateway/test; a step without one is a proof of this name. */
  readonly file?: string
  /** The figures of the release, in the environment; those that are set already stay. */
  readonly env?: Readonly<Record<string, string>>
  /** Another version of PostgreSQL than the one of this machine. */
  readonly postgres?: PostgresVersion
}

const tests: readonly Step[] = [
  {
    name: 'kill',
    shows: 'processes over one record are killed 20 times and stopped: none lost, taken over in time',
    file: 'store/postgres/fleet.crash.test.ts',
    engines: ['postgres'],
    env: { SLUICE_FLEET_BEAT_MS: '2000', SLUICE_FLEET_KILLS: '20' },
  },
  {
    name: 'record-kill',
    shows: 'a gateway over PostgreSQL is killed 40 times in 20,000 messages',
    file: 'guarantees/postgres.crash.long.test.ts',
    engines: ['postgres'],
    env: { SLUICE_CRASH_MESSAGES: '20000', SLUICE_CRASH_KILLS: '40' },
  },
  {
    name: 'recipients',
    shows:
      'two gateways, a burst for the same recipients: no window over at the mail server, through losses of Redis',
    file: 'guarantees/fleet-recipients.crash.test.ts',
    engines: ['postgres', 'redis'],
    env: { SLUICE_FLUSHES: '1' },
  },
  {
    name: 'tenants',
    shows: 'two gateways: rate and queue of a tenant exact, one message for one Idempotency-Key',
    file: 'guarantees/fleet-limits.test.ts',
    engines: ['postgres', 'redis'],
  },
  {
    name: 'orders',
    shows: 'an opt-out and a cancellation that one gateway answered are obeyed by the other',
    file: 'guarantees/fleet-orders.crash.long.test.ts',
    engines: ['postgres', 'redis'],
  },
  {
    name: 'flush',
    shows: 'Redis loses everything twice a second for 60 s under two gateways: no window of a tenant over',
    file: 'guarantees/fleet-flush.crash.test.ts',
    engines: ['postgres', 'redis'],
    env: { SLUICE_SECONDS: '60' },
  },
  {
    name: 'flush-limits',
    shows: 'four processes under one Redis that loses everything ten times a second for 60 s: no window over',
    file: 'adapters/state/redis/redis-limits.crash.test.ts',
    engines: ['redis'],
    env: { SLUICE_SECONDS: '60', SLUICE_PROCESSES: '4' },
  },
  {
    name: 'redis-away',
    shows: 'Redis is killed and frozen: each decision within its deadline, as declared',
    file: 'guarantees/fleet-away.long.test.ts',
    engines: ['postgres', 'redis'],
  },
  {
    name: 'fail-over',
    shows: 'a Redis is replaced while a gateway is still connected to the deposed one: no window over',
    file: 'guarantees/fleet-deposed.long.test.ts',
    engines: ['postgres', 'redis'],
  },
  {
    name: 'stopped',
    shows: 'a gateway that was stopped until it was declared dead ends and sends nothing',
    file: 'guarantees/fleet-serve.test.ts',
    engines: ['postgres', 'redis'],
  },
]

const versions: readonly Step[] = (['14', '16', '17'] as const).map((postgres) => ({
  name: `postgres-${postgres}`,
  shows: `the store, its migrations and its fleet on PostgreSQL ${postgres}`,
  file: 'store/postgres/*.test.ts',
  engines: ['postgres'],
  postgres,
}))

export const steps: readonly Step[] = [
  ...tests,
  ...versions,
  ...Object.entries(proofs).map(([name, { shows, engines }]) => ({ name, shows, engines })),
]

const root = fileURLToPath(new URL('../../../../', import.meta.url))
/** Lines of the summary of node:test, which say nothing of the figures. */
const summary = /^ℹ (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /
/** How often it is told that a step still runs, ms. */
const tellMs = 30_000

/** A step's output: the figures, the tests that failed, and how many have passed; a proof that ends counts as one. */
interface Heard {
  readonly figures: string[]
  readonly failed: string[]
  passed: number
}

function hearTest(text: string, heard: Heard): void {
  const pass = /^ℹ pass (\d+)/.exec(text)
  if (pass !== null) heard.passed = Number(pass[1])
  else if (text.startsWith('✖') && !heard.failed.includes(text)) heard.failed.push(text)
  else if (text.startsWith('ℹ') && !summary.test(text)) heard.figures.push(text.slice(2))
}

/** A proof prints its figures as one line of JSON. */
function hearProof(text: string, heard: Heard): void {
  if (!text.startsWith('{')) return
  const { proof: _, ...figures } = JSON.parse(text) as Record<string, unknown>
  for (const [name, value] of Object.entries(figures))
    heard.figures.push(`${name} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
  heard.passed = 1
}

/** Runs a step on engines of its own and prints its line; resolves with true where nothing failed. */
export async function runStep({ name, file, engines, env, postgres }: Step, scale: Scale): Promise<boolean> {
  const began = performance.now()
  const seconds = (): number => Math.round((performance.now() - began) / 1_000)
  const isProof = file === undefined
  const program = isProof
    ? ['bench/fleet-proofs.ts', name, '--scale', scale]
    : ['--test', '--test-reporter=spec', `packages/gateway/test/${file}`]
  const programs =
    postgres === undefined ? {} : { SLUICE_POSTGRES_PROGRAMS: await fetchPostgresPrograms(postgres) }
  const child = spawn(
    process.execPath,
    [
      ...['scripts/services.ts', 'run', ...engines, '--'],
      ...[process.execPath, '--conditions=sluice-source', ...program],
    ],
    {
      cwd: root,
      env: {
        ...(scale === 'full' ? env : {}),
        ...process.env,
        ...programs,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const code = new Promise<number | null>((resolve) => child.on('exit', resolve))
  const telling = setInterval(() => console.error(`${name}: runs for ${seconds()} s`), tellMs)
  const heard: Heard = { figures: [], failed: [], passed: 0 }
  for await (const line of createInterface({ input: child.stdout })) {
    if (isProof) hearProof(line.trim(), heard)
    else hearTest(line.trim(), heard)
  }
  const isClean = (await code) === 0 && heard.passed > 0
  clearInterval(telling)
  const told = isClean || isProof ? heard.figures : heard.failed
  const passed = isProof ? '' : `${heard.passed} passed; `
  console.log(
    `${name.padEnd(22)} ${isClean ? 'ok    ' : 'FAILED'} ${String(seconds()).padStart(5)} s  ${passed}${told.join('; ')}`,
  )
  return isClean
}
