/**
 * Does the store's own thread pay? The same work with the engine in the owner's thread and in one of its own, in
 * interleaved rounds: at saturation (clients that accept and settle one notification after the other, and batches of
 * a hundred), and at a steady pace (delay of the event loop, latency of a commit). Figures of decision record 0003.
 *
 *     npm run bench -- store-thread [--rounds 5] [--seconds 2] [--pace 3000]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { settled, someNotification } from '../packages/gateway/src/conformance/store/sample.ts'
import type { Notification } from '../packages/gateway/src/model.ts'
import type { Clock, Store } from '../packages/gateway/src/ports.ts'
import { createSqliteStore } from '../packages/gateway/src/store/sqlite/sqlite.ts'
import { options } from './catalogue.ts'

const { rounds, seconds, pace, folder: parent } = options('store-thread')
const lengthMs = seconds * 1_000
const clients = 64

const clock: Clock = {
  now: Date.now,
  monotonic: () => performance.now(),
  at: () => () => {},
  soon: (callback) => {
    setImmediate(callback)
  },
}

let made = 0
function fresh(): Notification {
  made += 1
  const createdAt = Date.now()
  return someNotification({
    id: `01K${createdAt.toString(32).toUpperCase()}${String(made).padStart(14, '0')}`,
    tenant: `tenant-${made % 10}`,
    to: {
      id: `user-${Math.floor(Math.random() * 100_000)}`,
      email: 'ada@example.com',
      timeZone: 'Europe/Rome',
    },
    content: { subject: 'Your order has left our warehouse', text: 'It is on its way to you. '.repeat(10) },
    createdAt,
  })
}

async function pass(store: Store): Promise<void> {
  const notification = fresh()
  await store.commit({ accept: [notification] })
  await store.commit({ moves: [settled(notification, Date.now())] })
}

async function passBatch(store: Store): Promise<void> {
  const batch = Array.from({ length: 100 }, fresh)
  await store.commit({ accept: batch })
  await Promise.all(batch.map((one) => store.commit({ moves: [settled(one, Date.now())] })))
}

const figures = new Map<string, number[]>()
const note = (name: string, figure: number): void => {
  figures.set(name, [...(figures.get(name) ?? []), figure])
}

async function saturate(mode: string, what: string, count: number, lanes: number, one: () => Promise<void>) {
  const end = performance.now() + lengthMs
  const idle = performance.eventLoopUtilization()
  const cpu = process.cpuUsage()
  let done = 0
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      await one()
      done += count
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  const { user, system } = process.cpuUsage(cpu)
  const { active } = performance.eventLoopUtilization(idle)
  note(`${what}: messages/s · ${mode}`, done / (lengthMs / 1_000))
  note(`${what}: CPU of all threads, µs a message · ${mode}`, (user + system) / done)
  note(`${what}: event loop held, µs a message · ${mode}`, (active * 1_000) / done)
}

async function keepPace(mode: string, store: Store): Promise<void> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const latencies: number[] = []
  const begin = performance.now()
  const open = new Set<Promise<void>>()
  let sent = 0
  delay.enable()
  while (performance.now() - begin < lengthMs) {
    for (; sent < ((performance.now() - begin) / 1_000) * pace; sent += 1) {
      const at = performance.now()
      const work = pass(store).then(() => {
        latencies.push(performance.now() - at)
        open.delete(work)
      })
      open.add(work)
    }
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  delay.disable()
  await Promise.all(open)
  latencies.sort((a, b) => a - b)
  note(`${pace}/s: event loop delay p99, ms · ${mode}`, delay.percentile(99) / 1e6)
  note(`${pace}/s: accept + settle p50, ms · ${mode}`, latencies[Math.floor(latencies.length * 0.5)]!)
  note(`${pace}/s: accept + settle p99, ms · ${mode}`, latencies[Math.floor(latencies.length * 0.99)]!)
}

const folder = mkdtempSync(join(parent, 'sluice-bench-'))
for (let round = 0; round < rounds; round += 1) {
  for (const [mode, thread] of [
    ['own thread', true],
    ['owner’s', false],
  ] as const) {
    const store = createSqliteStore({ clock, path: join(folder, `${mode}.db`), thread })
    await store.ping()
    await saturate(mode, `${clients} clients`, 1, clients, () => pass(store))
    await saturate(mode, 'batches of 100', 100, 4, () => passBatch(store))
    await keepPace(mode, store)
    await store.close()
  }
}
rmSync(folder, { recursive: true })

for (const [name, list] of [...figures].sort()) {
  const sorted = list.toSorted((a, b) => a - b)
  const show = (figure: number): string => (figure >= 100 ? figure.toFixed(0) : figure.toFixed(1))
  console.log(
    `${name.padEnd(62)} ${show(sorted[Math.floor(sorted.length / 2)]!).padStart(8)}   ${show(sorted[0]!)}…${show(sorted.at(-1)!)}`,
  )
}
