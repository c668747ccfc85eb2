/**
 * What a call costs Redis: µs of its time per call (`INFO commandstats`) and bytes per subject, for each operation, for
 * subjects of few events and for streams of thousands. Needs a Redis of its own, because it counts all calls:
 * `npm run services -- run redis -- node --conditions=sluice-source packages/limits/bench/redis-cpu.ts`.
 * A second argument 'long' measures long streams only.
 */
import process from 'node:process'
import { Redis } from 'ioredis'
import { createLimits, type Limit, type Limits, limit, redisStore } from '../src/index.ts'

const client = new Redis(process.env.SLUICE_TEST_REDIS!, { enableAutoPipelining: true })
const subjects = 400
const dayMs = 86_400_000
const startMs = Date.UTC(2026, 10, 21, 12)
let now = startMs

/** Six rules over four streams, wide enough that nobody is refused. */
const six = [
  limit('marketing', '400/day, 400/week, 400/month', { stream: 'm' }),
  limit('category', '400/30min', { stream: 'c' }),
  limit('all', '400/30min', { stream: 'a' }),
  limit('gap', [], { stream: 'g', minGap: 1 }),
]

async function usecPerCall(work: () => Promise<unknown>): Promise<number> {
  await client.config('RESETSTAT')
  await work()
  const stats = await client.info('commandstats')
  const [, calls, usec] = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(stats)!
  return Number(usec) / Number(calls)
}

async function bytesOf(key: string): Promise<number> {
  return Number(await client.memory('USAGE', key, 'SAMPLES', 0))
}

function open(prefix: string, packedMaxBytes?: number): Limits {
  const option = packedMaxBytes === undefined ? {} : { packedMaxBytes }
  return createLimits({
    store: redisStore(client, { prefix, deadlineMs: 60_000, now: () => now, ...option }),
  })
}

const each = <T>(work: (subject: string, index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: subjects }, (_, index) => work(`s${index}`, index)))

interface Cost {
  readonly [operation: string]: number
}

async function fewEvents(events: number, withIds: boolean): Promise<Cost> {
  const limits = open(`${events}${withIds}:`)
  const id = (index: number) => `018f4e9c-7a2b-7c3d-8e4f-${String(index).padStart(12, '0')}`
  for (let event = 0; event < events; event += 1) {
    now += 1_000
    await each((s) => limits.take(s, six, withIds ? { id: id(event) } : {}))
  }
  now += 1_000
  const bytes = await bytesOf(`${events}${withIds}:{s0}`)
  const check = await usecPerCall(() => each((s) => limits.check(s, six)))
  const reserve = await usecPerCall(() => each((s) => limits.reserve(s, six, { id: id(9_000) })))
  now += 5
  const fire = await usecPerCall(() => each((s) => limits.fire(s, id(9_000), six)))
  now += 1_000
  const take = await usecPerCall(() => each((s) => limits.take(s, six)))
  const ahead = { notBefore: now + 60_000 }
  const later = await usecPerCall(() => each((s) => limits.reserve(s, six, { id: id(9_001), ...ahead })))
  const behind = await usecPerCall(() => each((s) => limits.reserve(s, six, { id: id(9_002), ...ahead })))
  const cancel = await usecPerCall(() => each((s) => limits.cancel(s, id(9_002))))
  return { events, bytes, check, take, reserve, fire, later, behind, cancel }
}

/** A stream that has been busy for long: as many events as are retained, and its window nearly full. */
async function longStream(max: number, packedMaxBytes: number | undefined): Promise<Cost> {
  const rules: Limit[] = [limit('busy', `${max}/day`)]
  const prefix = `long${max}-${packedMaxBytes ?? 'both'}:`
  const limits = open(prefix, packedMaxBytes)
  const few = 8
  const some = <T>(work: (subject: string) => Promise<T>) =>
    Promise.all(Array.from({ length: few }, (_, index) => work(`s${index}`)))
  await some((s) => limits.take(s, rules))
  const total = Math.ceil(1.9 * max)
  for (let from = 0; from < total; from += 2_000) {
    const count = Math.min(2_000, total - from)
    const at = (index: number) => now - 2 * dayMs + (from + index) * Math.floor((2 * dayMs) / total)
    const entries = Array.from({ length: count }, (_, index) => ({
      id: `018f4e9c-7a2b-7c3d-8e4f-${from + index}`,
      at: at(index),
      fired: true,
      streams: ['busy'],
    }))
    await some((s) => limits.restore(s, entries))
  }
  const rounds = async (work: (s: string, round: number) => Promise<unknown>) => {
    for (let round = 0; round < 20; round += 1) {
      now += 20
      await some((s) => work(s, round))
    }
  }
  const bytes = await bytesOf(`${prefix}{s0}`)
  const check = await usecPerCall(() => rounds((s) => limits.check(s, rules)))
  const take = await usecPerCall(() => rounds((s) => limits.take(s, rules)))
  const reserve = await usecPerCall(() => rounds((s, round) => limits.reserve(s, rules, { id: `r${round}` })))
  const fire = await usecPerCall(() => rounds((s, round) => limits.fire(s, `r${round}`, rules)))
  const firm = await usecPerCall(() =>
    rounds((s, round) => limits.reserve(s, rules, { id: `f${round}`, firm: true })),
  )
  const cancel = await usecPerCall(() => rounds((s, round) => limits.cancel(s, `f${round}`)))
  return { max, bytes, check, take, reserve, fire, firm, cancel }
}

const table = (rows: readonly Cost[]): void =>
  console.table(
    rows.map((row) => Object.fromEntries(Object.entries(row).map(([k, v]) => [k, Math.round(v * 10) / 10]))),
  )

if (process.argv[2] !== 'long') {
  console.log('Six rules over four streams, µs of Redis per call; without ids, then with one for each event')
  for (const withIds of [false, true]) {
    const rows: Cost[] = []
    for (const events of [3, 10, 30, 100]) rows.push(await fewEvents(events, withIds))
    table(rows)
  }
}
console.log('One rule of N per day, the stream as long as it gets; one string, then a hash of segments')
for (const packedMaxBytes of [2 ** 30, undefined]) {
  const rows: Cost[] = []
  for (const max of [100, 1_000, 10_000]) rows.push(await longStream(max, packedMaxBytes))
  table(rows)
}
await client.flushall()
client.disconnect()
