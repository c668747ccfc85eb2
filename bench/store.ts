/**
 * The embedded store against raw INSERTs of the same rows on the same disk in the same minute: interleaved rounds,
 * medians. `npm run bench -- store [--rounds 5] [--rows 20000] [--full 0]`; `--full 1000000`
 * first fills the store with so many scheduled notifications.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Notification } from '../packages/gateway/src/model.ts'
import { advance } from '../packages/gateway/src/model.ts'
import type { Clock, Store } from '../packages/gateway/src/ports.ts'
import { createSqliteStore } from '../packages/gateway/src/store/sqlite/sqlite.ts'
import { options } from './catalogue.ts'

const { rounds, rows, full, folder: parent } = options('store')
const folder = mkdtempSync(join(parent, 'sluice-bench-'))

const clock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  at: () => () => {},
  soon: (callback) => {
    setImmediate(callback)
  },
}

const start = Date.now()
let made = 0
/** Some 900 bytes as JSON: a tenth of the recipients get most, as in life. */
function notification(dueAt?: number): Notification {
  made += 1
  const createdAt = start + Math.floor(made / 50)
  const id = `01K${createdAt.toString(32).toUpperCase().padStart(9, '0')}${(made * 2654435761).toString(32).padStart(14, '0').slice(-14).toUpperCase()}`
  const recipient = Math.floor(Math.random() ** 2 * 100_000)
  const at = dueAt ?? createdAt
  return {
    id,
    tenant: `tenant-${made % 10}`,
    module: 'shop',
    to: { id: `user-${recipient}`, email: `user-${recipient}@example.com`, timeZone: 'Europe/Rome' },
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content: {
      subject: 'Your order has left our warehouse',
      text: 'Dear customer, your order 4711-0815 has left our warehouse and is on its way to you. '.repeat(3),
    },
    fingerprint: 'c0ffee00c0ffee00c0ffee00c0ffee00',
    createdAt,
    status: dueAt === undefined ? 'queued' : 'scheduled',
    dueAt: at,
    decision: {
      outcome: 'send',
      at,
      policyVersion: 'c0ffee00',
      rules: [
        {
          limit: 'product-email',
          window: '5/day',
          used: 1,
          max: 5,
          remaining: 3,
          freesAt: null,
          admits: true,
        },
        {
          limit: 'product-email',
          window: '15/week',
          used: 1,
          max: 15,
          remaining: 13,
          freesAt: null,
          admits: true,
        },
        {
          limit: 'everything',
          window: '100/30min',
          used: 1,
          max: 100,
          remaining: 98,
          freesAt: null,
          admits: true,
        },
      ],
    },
    attempts: 0,
    timeline: [
      { at: createdAt, status: 'accepted' },
      { at: createdAt, status: dueAt === undefined ? 'queued' : 'scheduled' },
    ],
  }
}

const settle = (before: Notification) =>
  advance(
    before,
    [
      { at: before.createdAt, status: 'sending', provider: 'sandbox', account: 'account-1', attempt: 1 },
      {
        at: before.createdAt + 5,
        status: 'delivered',
        provider: 'sandbox',
        account: 'account-1',
        attempt: 1,
      },
    ],
    { attempts: 1, firedAt: before.createdAt, dueAt: before.createdAt + 5 },
  )

interface Figure {
  /** Rows a second. */
  readonly rate: number
  /** CPU time of all threads, for one row. */
  readonly cpuUs: number
}

const figures = new Map<string, Figure[]>()

async function measure(name: string, count: number, work: () => Promise<void> | void): Promise<void> {
  const cpu = process.cpuUsage()
  const begin = process.hrtime.bigint()
  await work()
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9
  const { user, system } = process.cpuUsage(cpu)
  figures.set(name, [...(figures.get(name) ?? []), { rate: count / seconds, cpuUs: (user + system) / count }])
}

function* slices<T>(list: readonly T[], size: number): Generator<readonly T[]> {
  for (let index = 0; index < list.length; index += size) yield list.slice(index, index + size)
}

async function inGroups(store: Store, list: readonly Notification[], size: number): Promise<void> {
  for (const group of slices(list, size))
    await Promise.all(group.map((one) => store.commit({ accept: [one] })))
}

const raw = new DatabaseSync(join(folder, 'raw.db'))
raw.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536')
raw.exec(`CREATE TABLE rows (id TEXT PRIMARY KEY, tenant TEXT, recipient TEXT, status TEXT, due_at INTEGER,
  created_at INTEGER, body TEXT)`)
const insert = raw.prepare('INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)')

function rawInsert(list: readonly Notification[], size: number): void {
  for (const group of slices(list, size)) {
    raw.exec('BEGIN')
    for (const n of group)
      insert.run(n.id, n.tenant, n.to.id, n.status, n.dueAt, n.createdAt, JSON.stringify(n))
    raw.exec('COMMIT')
  }
}

const file = join(folder, 'store.db')
const store = createSqliteStore({ clock, path: file })

if (full > 0) {
  await measure(`fill with ${full} scheduled`, full, async () => {
    for (let left = full; left > 0; left -= 1_000) {
      const count = Math.min(left, 1_000)
      const later = (): number => start + 3_600_000 + Math.floor(Math.random() * 86_400_000)
      await store.commit({ accept: Array.from({ length: count }, () => notification(later())) })
    }
  })
}

const make = (count: number): readonly Notification[] => Array.from({ length: count }, () => notification())
for (let round = 0; round < rounds; round += 1) {
  for (const [size, count] of [
    [100, rows],
    [10, rows / 4],
    [1, rows / 20],
  ] as const) {
    const plain = make(count)
    await measure(`raw INSERT, ${size} a commit`, count, () => rawInsert(plain, size))
    const accepted = make(count)
    await measure(`accept, groups of ${size}`, count, () => inGroups(store, accepted, size))
    const moves = accepted.map(settle)
    await measure(`settle, groups of ${size}`, count, async () => {
      for (const group of slices(moves, size))
        await Promise.all(group.map((move) => store.commit({ moves: [move] })))
    })
  }
  const batches = make(rows)
  await measure('accept, batches of 100', rows, async () => {
    for (const batch of slices(batches, 100)) await store.commit({ accept: batch })
  })
}

const median = (list: readonly number[]): number =>
  list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0
console.log(`row: ${JSON.stringify(notification()).length} bytes of JSON; rounds: ${rounds}`)
for (const [name, list] of figures) {
  const rates = list.map(({ rate }) => rate)
  const size = /\d+$/.exec(name.replace(' a commit', ''))?.[0]
  const raws = figures.get(`raw INSERT, ${size} a commit`)?.map(({ rate }) => rate)
  const ratio = raws === undefined ? '' : `${Math.round((median(rates) / median(raws)) * 100)} %`
  const cpu = median(list.map(({ cpuUs }) => cpuUs)).toFixed(1)
  console.log(
    `${name.padEnd(28)} ${String(Math.round(median(rates))).padStart(8)}/s ${ratio.padStart(6)} ${cpu.padStart(7)} µs CPU   ${Math.round(Math.min(...rates))}…${Math.round(Math.max(...rates))}/s`,
  )
}
console.log(
  `RSS ${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB, file ${Math.round(statSync(file).size / 2 ** 20)} MiB, log ${Math.round(statSync(`${file}-wal`).size / 2 ** 20)} MiB`,
)
await store.close()
raw.close()
rmSync(folder, { recursive: true })
