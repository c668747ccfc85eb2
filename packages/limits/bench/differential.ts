/**
 * The same random operations on the literal model, in memory and over Redis, every answer compared: 0 mismatches in a
 * million. Over Redis in turn as subjects are by default, always as a hash, and growing and shrinking between both.
 * `npm run services -- run redis -- node --conditions=sluice-source packages/limits/bench/differential.ts
 * --operations 1000000 --seed 1`; the tests do some thousands with a fixed seed. Ends with 1 at the first mismatch.
 */
import process from 'node:process'
import { parseArgs } from 'node:util'
import { Redis } from 'ioredis'
import { compare } from '../src/conformance/differential.ts'
import { modelStore } from '../src/conformance/model.ts'
import { seededRandom } from '../src/conformance/random.ts'
import { createLimits, type Limits, memoryStore, redisStore } from '../src/index.ts'

const { values } = parseArgs({
  options: {
    operations: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
  },
})
const operations = Number(values.operations)
const seed = Number(values.seed) >>> 0
/** A fresh subject after so many: long enough for everything to meet, short enough to read a failure. */
const operationsPerRun = 200
const progressMs = 10_000

const client = new Redis(process.env.SLUICE_TEST_REDIS!, { enableAutoPipelining: true })
const world = { now: Date.UTC(2026, 10, 21, 12) }
const clock = { now: () => world.now, retentionMs: 31 * 86_400_000 }
const prefix = `differential:${process.pid}:`
const inMemory = createLimits({ store: memoryStore(clock) })
const overRedis: readonly Limits[] = [{}, { packedMaxBytes: 64 }, { packedMaxBytes: 400 }].map((options) =>
  createLimits({ store: redisStore(client, { ...clock, ...options, prefix, deadlineMs: 60_000 }) }),
)

const startMs = performance.now()
let toldMs = startMs
let done = 0
try {
  for (let run = 0; done < operations; run += 1) {
    const count = Math.min(operationsPerRun, operations - done)
    const redis = overRedis[run % overRedis.length]!
    const model = createLimits({ store: modelStore({ now: () => world.now }) })
    await compare(
      seededRandom(seed + run),
      world,
      count,
      [inMemory, redis],
      model,
      `--seed ${seed}, run ${run}`,
    )
    for (const subject of ['ada', 'bob']) {
      await inMemory.forget(subject)
      await redis.forget(subject)
    }
    world.now += 1_000
    done += count
    if (performance.now() - toldMs < progressMs) continue
    toldMs = performance.now()
    console.error(`${done} of ${operations} operations, ${Math.round((toldMs - startMs) / 1_000)} s`)
  }
  const seconds = Math.round((performance.now() - startMs) / 1_000)
  console.log(`0 mismatches in ${done} operations, --seed ${seed}, ${seconds} s`)
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
} finally {
  client.disconnect()
}
