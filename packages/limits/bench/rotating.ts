/**
 * Somebody who never comes twice from the same address: a million subjects under `100/min`, in memory and over Redis
 * at once, and what is kept of them. Bounded is what never exceeds the subjects of the last two windows, and is gone
 * two windows after the last call. Real time, since a key of Redis ends by it: some five minutes.
 *
 *     npm run services -- run redis -- node --expose-gc --conditions=sluice-source packages/limits/bench/rotating.ts
 *       [--subjects 1000000] [--minutes 3]
 */
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Redis } from 'ioredis'
import { createLimits, limit, memoryStore, redisStore } from '../src/index.ts'

const { values } = parseArgs({
  options: {
    subjects: { type: 'string', default: '1000000' },
    minutes: { type: 'string', default: '3' },
  },
})
const subjects = Number(values.subjects)
const spentMs = Number(values.minutes) * 60_000
const windowMs = 60_000
const rules = [limit('minute', '100/min')]

const client = new Redis(process.env.SLUICE_TEST_REDIS!, { enableAutoPipelining: true })
const store = memoryStore()
const { sync } = createLimits({ store })
const overRedis = createLimits({ store: redisStore(client, { deadlineMs: 60_000, prefix: 'rotating:' }) })

async function redisMb(): Promise<number> {
  const info = await client.info('memory')
  return Number(/used_memory:(\d+)/.exec(info)![1]) / 1e6
}

function heapMb(): number {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed / 1e6
}

/** The beginning of each second, and the number of subjects that had come by then. */
const course: { readonly atMs: number; readonly count: number }[] = []
let count = 0
let worst = 0

async function tell(): Promise<void> {
  const nowMs = performance.now()
  const before = course.findLast(({ atMs }) => atMs <= nowMs - 2 * windowMs)?.count ?? 0
  const used = count - before
  const [keys, mb] = [await client.dbsize(), await redisMb()]
  if (used > 0) worst = Math.max(worst, keys / used, store.size / used)
  const row = [
    `${Math.round((nowMs - begunMs) / 1_000)} s`,
    `${count} came, ${used} of them in two windows`,
    `memory ${store.size}, heap ${heapMb().toFixed(0)} MB`,
    `Redis ${keys}, ${mb.toFixed(0)} MB`,
  ]
  console.log(row.join(' · '))
}

const emptyMb = [heapMb(), await redisMb()] as const
const begunMs = performance.now()
let toldMs = begunMs
while (count < subjects) {
  const due = Math.min(subjects, Math.ceil(((performance.now() - begunMs) / spentMs) * subjects))
  const answers: Promise<unknown>[] = []
  for (; count < due; count += 1) {
    const subject = `ip:203.0.${count}`
    sync.take(subject, rules)
    answers.push(overRedis.take(subject, rules))
  }
  await Promise.all(answers)
  course.push({ atMs: performance.now(), count })
  if (performance.now() - toldMs > 20_000) {
    toldMs = performance.now()
    await tell()
  }
  await sleep(20)
}
await tell()
await sleep(2 * windowMs + 1_000)
await tell()
const left = `heap ${emptyMb[0].toFixed(0)} → ${heapMb().toFixed(0)} MB, Redis ${emptyMb[1].toFixed(0)} → ${(await redisMb()).toFixed(0)} MB`
console.log(
  `at most ${worst.toFixed(2)} of what the last two windows used; two windows later ${store.size} and ${await client.dbsize()} subjects; ${left}`,
)
process.exitCode = worst <= 1 && store.size === 0 && (await client.dbsize()) === 0 ? 0 : 1
client.disconnect()
