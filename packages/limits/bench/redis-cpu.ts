/**
 * Measures the cost of a call for Redis: µs of its time per call (`INFO commandstats`, best of five) and bytes per subject, for each
 * operation; for subjects of few events and for streams of thousands, beside one exact script over a sorted set.
 * Needs a Redis of its own, because it counts all calls:
 * `npm run services -- run redis -- node --conditions=sluice-source packages/limits/bench/redis-cpu.ts`; `few` or
 * `long` as an argument measures one half only.
 */
import process from 'node:process'
import { Redis } from 'ioredis'
import { createLimits, type Limits, limit, redisStore } from '../src/index.ts'

type Cost = Readonly<Record<string, number>>

const client = new Redis(process.env.SLUICE_TEST_REDIS!, { enableAutoPipelining: true })
const dayMs = 86_400_000
let now = Date.UTC(2026, 10, 21, 12)

/** Six rules over four streams, wide enough that nobody is refused. */
const six = [
  limit('marketing', '400/day, 400/week, 400/month', { stream: 'm' }),
  limit('category', '400/30min', { stream: 'c' }),
  limit('all', '400/30min', { stream: 'a' }),
  limit('gap', [], { stream: 'g', minGap: 1 }),
]

/** The exact limiter that people write: one script over one sorted set, a member for each event. */
const sortedSet = `local now, window, max = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
if redis.call('ZCARD', KEYS[1]) >= max then
  return { 0, redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] }
end
redis.call('ZADD', KEYS[1], now, ARGV[4])
redis.call('PEXPIRE', KEYS[1], window)
return { 1, redis.call('ZCARD', KEYS[1]) }`

const rounds = 5
/** While a stream is filled. */
const inFlight = 50

/** The best round's: whatever else runs on the machine only adds. */
async function usec(work: (round: number) => Promise<unknown>): Promise<number> {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < rounds; round += 1) {
    now += 1_000
    await client.config('RESETSTAT')
    await work(round)
    const stats = await client.info('commandstats')
    const [, calls, total] = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(stats)!
    best = Math.min(best, Number(total) / Number(calls))
  }
  return best
}

const bytesOf = async (key: string): Promise<number> =>
  Number(await client.memory('USAGE', key, 'SAMPLES', 0))
const uuid = (index: number): string => `018f4e9c-7a2b-7c3d-8e4f-${String(index).padStart(12, '0')}`

function open(prefix: string, packedMaxBytes?: number): Limits {
  const option = packedMaxBytes === undefined ? {} : { packedMaxBytes }
  return createLimits({
    store: redisStore(client, { prefix, deadlineMs: 60_000, now: () => now, ...option }),
  })
}

async function fewEvents(events: number, withIds: boolean): Promise<Cost> {
  const prefix = `${events}${withIds}:`
  const limits = open(prefix)
  const each = (work: (subject: string) => Promise<unknown>) =>
    Promise.all(Array.from({ length: 200 }, (_, index) => work(`s${index}`)))
  for (let event = 0; event < events; event += 1) {
    now += 1_000
    await each((s) => limits.take(s, six, withIds ? { id: uuid(event) } : {}))
  }
  now += 1_000
  const bytes = await bytesOf(`${prefix}{s0}`)
  const later = { notBefore: now + 60_000 }
  return {
    events,
    bytes,
    check: await usec(() => each((s) => limits.check(s, six))),
    take: await usec(() => each((s) => limits.take(s, six))),
    reserve: await usec(async (round) => {
      if (round > 0) await each((s) => limits.cancel(s, `r${round - 1}`))
      await client.config('RESETSTAT')
      await each((s) => limits.reserve(s, six, { id: `r${round}` }))
    }),
    fire: await usec(async (round) => {
      await each((s) => limits.cancel(s, `r${rounds - 1}`))
      await each((s) => limits.reserve(s, six, { id: `f${round}` }))
      now += 5
      await client.config('RESETSTAT')
      await each((s) => limits.fire(s, `f${round}`, six))
    }),
    'reserve later': await usec(async (round) => {
      if (round > 0) await each((s) => limits.cancel(s, `l${round - 1}`))
      await client.config('RESETSTAT')
      await each((s) => limits.reserve(s, six, { id: `l${round}`, ...later }))
    }),
    'reserve behind': await usec((round) =>
      each((s) => limits.reserve(s, six, { id: `b${round}`, ...later })),
    ),
    cancel: await usec((round) => each((s) => limits.cancel(s, `b${round}`))),
  }
}

/** A stream that has been busy for long: as many events as are retained, and its window nearly full. */
async function longStream(max: number, packedMaxBytes: number | undefined, withIds: boolean): Promise<Cost> {
  const rules = [limit('busy', `${max}/day`)]
  const prefix = `long${max}-${packedMaxBytes ?? 'both'}-${withIds}:`
  const limits = open(prefix, packedMaxBytes)
  const some = (work: (subject: string) => Promise<unknown>) =>
    Promise.all(['s0', 's1', 's2', 's3'].map(work))
  const total = Math.ceil(1.8 * max)
  const startMs = now
  let sent: Promise<unknown>[] = []
  for (let event = 0; event < total; event += 1) {
    now = startMs + Math.floor((event * 2 * dayMs) / total)
    sent.push(some((s) => limits.take(s, rules, withIds ? { id: uuid(event) } : {})))
    if (sent.length < inFlight && event < total - 1) continue
    await Promise.all(sent)
    sent = []
  }
  const bytes = await bytesOf(`${prefix}{s0}`)
  const often = async (work: (s: string, time: number) => Promise<unknown>) => {
    for (let time = 0; time < 8; time += 1) {
      now += 20
      await some((s) => work(s, time))
    }
  }
  const plain = {
    max,
    bytes,
    check: await usec(() => often((s) => limits.check(s, rules))),
    take: await usec(() => often((s) => limits.take(s, rules))),
  }
  if (!withIds) return plain
  return {
    ...plain,
    reserve: await usec((round) => often((s, time) => limits.reserve(s, rules, { id: `${round}.${time}` }))),
    fire: await usec((round) => often((s, time) => limits.fire(s, `${round}.${time}`, rules))),
    firm: await usec((round) =>
      often((s, time) => limits.reserve(s, rules, { id: `f${round}.${time}`, firm: true })),
    ),
    cancel: await usec((round) => often((s, time) => limits.cancel(s, `f${round}.${time}`))),
  }
}

async function longSortedSet(max: number): Promise<Cost> {
  const sha = String(await client.script('LOAD', sortedSet))
  let event = 0
  const take = () => {
    event += 1
    return client.evalsha(sha, 1, `zset${max}`, now, dayMs, max, uuid(event))
  }
  const fill: Promise<unknown>[] = []
  for (let filled = 0; filled < 0.9 * max; filled += 1) {
    now += Math.floor(dayMs / max)
    fill.push(take())
  }
  await Promise.all(fill)
  return {
    max,
    bytes: await bytesOf(`zset${max}`),
    take: await usec(() => Promise.all(Array.from({ length: 30 }, take))),
  }
}

function table(title: string, rows: readonly Cost[]): void {
  console.log(title)
  const round = ([name, value]: [string, number]) => [name, Math.round(value * 10) / 10]
  console.table(rows.map((row) => Object.fromEntries(Object.entries(row).map(round))))
}

async function tableOf(
  title: string,
  sizes: readonly number[],
  cost: (size: number) => Promise<Cost>,
): Promise<void> {
  const rows: Cost[] = []
  for (const size of sizes) rows.push(await cost(size))
  table(title, rows)
}

const half = process.argv[2]
if (half !== 'long') {
  const sizes = [3, 10, 30, 100]
  await tableOf('Six rules over four streams, nobody has an id', sizes, (events) => fewEvents(events, false))
  await tableOf('The same, every event has one', sizes, (events) => fewEvents(events, true))
}
if (half !== 'few') {
  const sizes = [100, 1_000, 10_000]
  const whole = 2 ** 30
  await tableOf('N per day, without ids: one packed string', sizes, (max) => longStream(max, whole, false))
  await tableOf('N per day, without ids: as it is', sizes, (max) => longStream(max, undefined, false))
  await tableOf('N per day: a sorted set, one script', sizes, longSortedSet)
  await tableOf('N per day, with ids: one packed string', sizes.slice(0, 2), (max) =>
    longStream(max, whole, true),
  )
  await tableOf('N per day, with ids: as it is', sizes, (max) => longStream(max, undefined, true))
}
await client.flushall()
client.disconnect()
