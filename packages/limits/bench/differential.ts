/**
 * The same random operations, batches among them, on the literal model, in memory, over Redis and on a cluster, every
 * answer compared: 0 mismatches in a million. Over Redis in turn as subjects are by default, always as a hash, and
 * growing and shrinking between both; every fourth run on the cluster. Many runs at once share the round trips.
 * `npm run services -- run redis redis-cluster -- node --conditions=sluice-source packages/limits/bench/differential.ts
 * --operations 1000000 --seed 1`; the tests do some thousands with a fixed seed. Ends with 1 at the first mismatch.
 */
import process from 'node:process'
import { parseArgs } from 'node:util'
import { modelStore, seededRandom } from '@sluice/limits-conformance'
import { Cluster, Redis } from 'ioredis'
import { compare } from '../../limits-conformance/src/differential.ts'
import { createLimits, memoryStore, type RedisClient, redisStore } from '../src/index.ts'

const { values } = parseArgs({
  options: {
    operations: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    /** The number of runs under way at once. */
    runs: { type: 'string', default: '24' },
  },
})
const operations = Number(values.operations)
const seed = Number(values.seed) >>> 0
/** A fresh store after so many: long enough for everything to meet, short enough to read a failure. */
const operationsPerRun = 200
const progressMs = 10_000
const retentionMs = 31 * 86_400_000

const nodes = (process.env.SLUICE_TEST_REDIS_CLUSTER ?? '').split(',').filter(Boolean)
const single = new Redis(process.env.SLUICE_TEST_REDIS!, { enableAutoPipelining: true })
const cluster =
  nodes.length === 0
    ? undefined
    : new Cluster(
        nodes.map((url) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) })),
        { enableAutoPipelining: true },
      )
interface Form {
  readonly name: string
  readonly client: RedisClient
  readonly options: { readonly packedMaxBytes?: number }
}
const forms: readonly Form[] = [
  { name: 'Redis', client: single, options: {} },
  { name: 'Redis, always a hash', client: single, options: { packedMaxBytes: 64 } },
  { name: 'Redis, growing and shrinking', client: single, options: { packedMaxBytes: 400 } },
  ...(cluster === undefined ? [] : [{ name: 'Redis Cluster', client: cluster, options: {} }]),
]

const startMs = performance.now()
let toldMs = startMs
let begun = 0
let done = 0
const doneBy = new Map<string, number>()

/** One run with a world, a model and stores of its own. */
async function work(run: number, count: number): Promise<void> {
  const world = { now: Date.UTC(2026, 10, 21, 12) }
  const clock = { now: () => world.now, retentionMs }
  const { name, client, options } = forms[run % forms.length]!
  const prefix = `differential:${process.pid}:${run}:`
  const redis = createLimits({
    store: redisStore(client, { ...clock, ...options, prefix, deadlineMs: 60_000 }),
  })
  const memory = createLimits({ store: memoryStore(clock) })
  const model = createLimits({ store: modelStore({ now: clock.now }) })
  await compare(seededRandom(seed + run), world, count, [memory, redis], model, `--seed ${seed}, run ${run}`)
  for (const subject of ['ada', 'bob']) await redis.forget(subject)
  done += count
  doneBy.set(name, (doneBy.get(name) ?? 0) + count)
}

async function worker(): Promise<void> {
  while (begun * operationsPerRun < operations) {
    const run = begun
    begun += 1
    await work(run, Math.min(operationsPerRun, operations - run * operationsPerRun))
    if (performance.now() - toldMs < progressMs) continue
    toldMs = performance.now()
    console.error(`${done} of ${operations} operations, ${Math.round((toldMs - startMs) / 1_000)} s`)
  }
}

try {
  await Promise.all(Array.from({ length: Number(values.runs) }, worker))
  const seconds = Math.round((performance.now() - startMs) / 1_000)
  const shares = Array.from(doneBy, ([name, count]) => `${name} ${count}`).join(', ')
  console.log(`0 mismatches in ${done} operations, --seed ${seed}, ${seconds} s (memory ${done}, ${shares})`)
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
} finally {
  single.disconnect()
  cluster?.disconnect()
}
