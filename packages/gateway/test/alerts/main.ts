/**
 * The command `npm run check:alerts`: causes the situation of every alert at a running gateway, and waits until a real
 * Prometheus says that this alert fires and no other. An hour of ordinary traffic and a restart fire none. All
 * durations of the rules are divided by 60 (rules.ts).
 */
import { spawnSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { misused, readArguments } from '../../../../scripts/runner/arguments.ts'
import { startPromtool } from '../../../../scripts/services/promtool.ts'
import { openLive } from './live.ts'
import { alertNames } from './rules.ts'
import { quiet, type Situation, situations } from './situations.ts'

const divisor = 60
const usage = `Usage: npm run check:alerts -- [options]
Causes every situation that an alert is for at a running gateway, with the durations of the rules divided by ${divisor}.

  --only <text>    the situations and alerts whose name has this text
  --at-once <n>    situations under way at the same time (1)`

const { values } = readArguments(usage, {
  only: { type: 'string', default: '' },
  'at-once': { type: 'string', default: '1' },
})
if (!/^[1-9]\d?$/.test(values['at-once'])) misused(usage, '--at-once wants a number from 1 to 99')

/** Bound of the wait for an alert: the longest `for` is 30 s. */
const firesMsMax = 90_000
/** Time that the gateway is scraped in peace before a situation begins. */
const peaceMs = 2_000
/** An hour, divided. */
const quietMs = 3_600_000 / divisor
/** Time after the alert, in which no other may fire either. */
const afterMs = 1_000
const pollMs = 100

interface Outcome {
  readonly ok: boolean
  readonly text: string
}

async function run({ alert, options, cause }: Situation): Promise<Outcome> {
  const ends: (() => unknown)[] = []
  const t = {
    after(end: () => unknown) {
      ends.push(end)
      open.add(end)
    },
  }
  let isOn = true
  let going: Promise<void> | undefined
  try {
    const live = await openLive(t, { divisor, ...options })
    await sleep(peaceMs)
    const early = await live.prometheus.firing()
    if (early.length > 0) return { ok: false, text: `${early.join(', ')} fired before anything happened` }
    const begunMs = performance.now()
    const passedMs = (): number => performance.now() - begunMs
    let failure: unknown
    going = cause(live, () => isOn).catch((error: unknown) => {
      failure = error
    })
    let firedMs: number | undefined
    const untilMs = (): number => (alert === undefined ? quietMs : (firedMs ?? firesMsMax) + afterMs)
    while (passedMs() < untilMs()) {
      const firing = await live.prometheus.firing()
      if (failure !== undefined) throw failure
      const others = firing.filter((each) => each !== alert)
      if (others.length > 0)
        return { ok: false, text: `${others.join(', ')} fired after ${seconds(passedMs())}` }
      if (alert !== undefined && firing.includes(alert)) firedMs ??= passedMs()
      await sleep(pollMs)
    }
    if (alert === undefined && (await live.prometheus.query('sluice_accepted_total > 100')).length === 0)
      return { ok: false, text: 'Prometheus saw no traffic' }
    if (alert === undefined) return { ok: true, text: `no alert in ${seconds(quietMs)}` }
    if (firedMs === undefined) return { ok: false, text: `did not fire in ${seconds(firesMsMax)}` }
    return { ok: true, text: `fired after ${seconds(firedMs)}, and no other` }
  } catch (error) {
    return { ok: false, text: (error as Error).stack ?? String(error) }
  } finally {
    isOn = false
    await going
    for (const end of ends.reverse()) {
      open.delete(end)
      await end()
    }
  }
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

/** Ends of all that is under way, for an interrupted run. */
const open = new Set<() => unknown>()
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(signal, async () => {
    for (const end of [...open].reverse()) await end()
    process.exit(code)
  })

// Scrapes have 250 ms: where the system allows it, this and all that it starts runs before everything else. A nice
// value would not do, since it counts among the processes of one session.
spawnSync('chrt', ['--all-tasks', '--rr', '--pid', '5', String(process.pid)])
const promtool = await startPromtool()
Object.assign(process.env, promtool.env)
const chosen = [...situations, ...quiet].filter(({ alert, name }) =>
  `${alert ?? 'none'}: ${name}`.includes(values.only),
)
if (chosen.length === 0) misused(usage, `nothing is called "${values.only}"`)
const waiting = [...chosen]
let failed = 0

async function lane(): Promise<void> {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const { ok, text } = await run(next)
    if (!ok) failed += 1
    console.log(`${ok ? 'ok  ' : 'FAIL'} ${(next.alert ?? 'none').padEnd(24)} ${next.name}: ${text}`)
  }
}
await Promise.all(Array.from({ length: Number(values['at-once']) }, lane))

const untested = alertNames.filter((name) => !situations.some(({ alert }) => alert === name))
if (untested.length > 0) console.log(`FAIL no situation for ${untested.join(', ')}`)
console.log(`${chosen.length - failed} passed, ${failed} failed`)
process.exitCode = failed > 0 || untested.length > 0 ? 1 : 0
