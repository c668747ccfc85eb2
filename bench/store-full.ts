/**
 * The cost of a million waiting notifications: accepting and releasing in a store that holds them and in one that is
 * empty, in interleaved rounds, and the memory of the process. `release` is what the schedule does: claim what is due,
 * settle it. `due in order`: what was accepted together is due together; `due at random`: every release touches rows
 * from all over the file, the worst case.
 *
 *     npm run bench -- store-full [--full 1000000] [--rounds 5] [--rows 5000]
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { settled, someNotification } from '../packages/gateway/src/conformance/store/sample.ts'
import type { Move, Notification } from '../packages/gateway/src/model.ts'
import { advance } from '../packages/gateway/src/model.ts'
import type { Clock } from '../packages/gateway/src/ports.ts'
import type { SqliteStore } from '../packages/gateway/src/store/sqlite/sqlite.ts'
import { createSqliteStore } from '../packages/gateway/src/store/sqlite/sqlite.ts'
import { options } from './catalogue.ts'

const { full, rounds, rows, folder: parent } = options('store-full')

const clock: Clock = {
  now: Date.now,
  monotonic: () => performance.now(),
  at: () => () => {},
  soon: (callback) => {
    setImmediate(callback)
  },
}
const start = Date.now()
const dayMs = 86_400_000
const soonMs = 3_600_000

let made = 0
function fresh(dueAt?: number): Notification {
  made += 1
  const createdAt = start + Math.floor(made / 50)
  return someNotification({
    id: `01K${createdAt.toString(32).toUpperCase()}${String(made).padStart(14, '0')}`,
    tenant: `tenant-${made % 10}`,
    to: {
      id: `user-${Math.floor(Math.random() * 200_000)}`,
      email: 'ada@example.com',
      timeZone: 'Europe/Rome',
    },
    content: { subject: 'Your order has left our warehouse', text: 'It is on its way to you. '.repeat(10) },
    createdAt,
    status: dueAt === undefined ? 'queued' : 'scheduled',
    dueAt: dueAt ?? createdAt,
  })
}

/** After the near ones, so that releases find theirs first. */
const farAway = (): number => start + 10 * dayMs + Math.floor(Math.random() * dayMs)

async function inGroups<T>(list: readonly T[], work: (one: T) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < list.length; at += 100) await Promise.all(list.slice(at, at + 100).map(work))
}

interface Figure {
  readonly rate: number
  readonly cpuUs: number
}
const figures = new Map<string, Figure[]>()
async function measure(name: string, count: number, work: () => Promise<void>): Promise<void> {
  const cpu = process.cpuUsage()
  const begin = performance.now()
  await work()
  const seconds = (performance.now() - begin) / 1_000
  const { user, system } = process.cpuUsage(cpu)
  figures.set(name, [...(figures.get(name) ?? []), { rate: count / seconds, cpuUs: (user + system) / count }])
}

/** Queued, handed over, delivered. */
const released = (before: Notification): Move =>
  advance(
    before,
    [
      { at: start, status: 'queued' },
      { at: start, status: 'sending', provider: 'sandbox', account: 'a1', attempt: 1 },
      { at: start + 5, status: 'delivered', provider: 'sandbox', account: 'a1', attempt: 1 },
    ],
    { attempts: 1, firedAt: start, dueAt: start + 5 },
  )

async function release(store: SqliteStore, until: number, count: number): Promise<void> {
  let left = count
  while (left > 0) {
    const page = await store.claimDue(until, 500)
    if (page.length === 0) throw new Error(`${left} of ${count} were not given out`)
    await inGroups(page, (one) => store.commit({ moves: [released(one)] }))
    left -= page.length
  }
}

const folder = mkdtempSync(join(parent, 'sluice-bench-'))
const file = join(folder, 'full.db')
const open = (path: string): SqliteStore => createSqliteStore({ clock, path })
let filled = open(file)
const empty = open(join(folder, 'empty.db'))
/** In the full store they are spread among the million; in the empty one they are all there is. */
const perRound = rows
const randomDue = (round: number): number =>
  start + soonMs + round * dayMs + Math.floor(Math.random() * 1_000) + 1_000
await measure('fill', full, async () => {
  const every = Math.max(1, Math.floor(full / (perRound * rounds)))
  let spread = 0
  for (let at = 0; at < full; at += 1_000) {
    const batch = Array.from({ length: 1_000 }, (_, i) => {
      const mine = (at + i) % every === 0 && spread < perRound * rounds
      if (mine) spread += 1
      return fresh(mine ? randomDue((spread - 1) % rounds) : farAway())
    })
    await filled.commit({ accept: batch })
  }
})
// The rows of the empty store: the same number, in no order of dueAt either.
for (let at = 0; at < perRound * rounds; at += 500) {
  await empty.commit({ accept: Array.from({ length: 500 }, (_, i) => fresh(randomDue((at + i) % rounds))) })
}
const begin = performance.now()
await filled.close()
filled = open(file)
await filled.ping()
console.log(`closed and opened again with ${full} waiting: ${Math.round(performance.now() - begin)} ms`)

for (let round = 0; round < rounds; round += 1) {
  const base = start + soonMs + round * dayMs
  for (const [name, store] of [
    ['empty', empty],
    ['full', filled],
  ] as const) {
    const now = Array.from({ length: rows }, () => fresh())
    await measure(`accept, due now · ${name}`, rows, () =>
      inGroups(now, (one) => store.commit({ accept: [one] })),
    )
    await measure(`settle · ${name}`, rows, () =>
      inGroups(now, (one) => store.commit({ moves: [settled(one, start)] })),
    )
    const later = Array.from({ length: rows }, (_, i) => fresh(base + Math.floor((i / rows) * 500)))
    await measure(`accept, scheduled · ${name}`, rows, () =>
      inGroups(later, (one) => store.commit({ accept: [one] })),
    )
    await measure(`release, due in order · ${name}`, rows, () => release(store, base + 500, rows))
    await measure(`release, due at random · ${name}`, perRound, () => release(store, base + 2_000, perRound))
    const scattered = Array.from({ length: rows }, () => fresh(farAway()))
    await measure(`accept, scheduled at random · ${name}`, rows, () =>
      inGroups(scattered, (one) => store.commit({ accept: [one] })),
    )
  }
}

const median = (list: readonly number[]): number =>
  list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0
for (const [name, list] of [...figures].sort(([a], [b]) => (a < b ? -1 : 1))) {
  const rate = median(list.map((figure) => figure.rate))
  const cpu = median(list.map(({ cpuUs }) => cpuUs))
  const other = figures.get(name.replace('· full', '· empty'))
  const ratio = name.endsWith('full') && other !== undefined
  console.log(
    `${name.padEnd(38)} ${String(Math.round(rate)).padStart(7)}/s ${cpu.toFixed(1).padStart(6)} µs CPU` +
      (ratio
        ? `   ${Math.round((rate / median(other.map((one) => one.rate))) * 100)} % of empty by time, ${Math.round((median(other.map((one) => one.cpuUs)) / cpu) * 100)} % by CPU`
        : ''),
  )
}
console.log(
  `RSS ${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB, highest ${Math.round(process.resourceUsage().maxRSS / 1024)} MiB; file ${Math.round(statSync(file).size / 2 ** 20)} MiB, log ${Math.round(statSync(`${file}-wal`).size / 2 ** 20)} MiB`,
)
await filled.close()
await empty.close()
rmSync(folder, { recursive: true })
