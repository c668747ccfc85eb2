/**
 * Measures the cost of a batch: the time of one call by its weight, and the room of a hundred calls of 4,000, in memory and in
 * Redis, with ids and without. Each call begins on a subject of its own; the best and the median of fifty.
 *
 *     npm run services -- run redis -- node --expose-gc --conditions=sluice-source packages/limits/bench/weights.ts
 */
import process from 'node:process'
import { Redis } from 'ioredis'
import { createLimits, type Limits, limit, memoryStore, redisStore } from '../src/index.ts'

const client = new Redis(process.env.SLUICE_TEST_REDIS!)
const rules = [limit('hour', '1000000/h'), limit('day', '1000000/day')]
const calls = 50
const prefix = 'weights:'
const overRedis = createLimits({ store: redisStore(client, { deadlineMs: 60_000, prefix }) })
const store = memoryStore()
const inMemory = createLimits({ store })

async function time(name: string, limits: Limits, weight: number): Promise<void> {
  const tookMs: number[] = []
  for (let call = 0; call < calls; call += 1) {
    const subject = `${name}:${weight}:${call}`
    const from = performance.now()
    await limits.take(subject, rules, { weight })
    tookMs.push(performance.now() - from)
  }
  tookMs.sort((a, b) => a - b)
  console.log(
    `${name}, a take of weight ${weight}: best ${tookMs[0]!.toFixed(3)} ms, median ${tookMs[calls >> 1]!.toFixed(3)} ms, worst ${tookMs.at(-1)!.toFixed(3)} ms`,
  )
}

await client.ping()
for (const [name, limits] of [
  ['memory', inMemory],
  ['Redis', overRedis],
] as const) {
  await limits.take('warm', rules, { weight: 5 })
  for (const weight of [1, 1_000, 1_000_000]) await time(name, limits, weight)
}

for (const withIds of [false, true]) {
  const subject = `bytes:${withIds}`
  for (let call = 0; call < 100; call += 1)
    await overRedis.take(subject, rules, withIds ? { weight: 4_000, id: `n${call}` } : { weight: 4_000 })
  const bytes = await client.memory('USAGE', `${prefix}{${subject}}`)
  console.log(`Redis, 100 calls of weight 4,000${withIds ? ' with ids' : ''}: ${bytes} bytes`)
}

const subjects = 1_000
globalThis.gc?.()
const before = process.memoryUsage().heapUsed
for (let index = 0; index < subjects; index += 1)
  for (let call = 0; call < 100; call += 1) inMemory.sync.take(`heap:${index}`, rules, { weight: 4_000 })
globalThis.gc?.()
const perSubject = (process.memoryUsage().heapUsed - before) / subjects
console.log(`memory, 100 calls of weight 4,000: ${perSubject.toFixed(0)} bytes, of ${store.size} subjects`)
client.disconnect()
