/**
 * The store on PostgreSQL beside plain multi-row INSERTs of the same bytes into one table with a primary key, on the same
 * server, in interleaved rounds; then what one call of it takes: a single acceptance at a steady pace, the right to send
 * for ten, a claim of 500; and, on Linux, the CPU of the server for a message in groups of 1, 10 and 100, and for its
 * removal behind its retention.
 *
 *     npm run services -- run postgres -- npm run bench -- postgres [--rounds 5] [--seconds 3] [--pace 1000]
 */
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { readPostgresAddress } from '../packages/gateway/src/config/postgres-address.ts'
import { someNotification } from '../packages/gateway/src/conformance/store/sample.ts'
import { advance, type Notification } from '../packages/gateway/src/model.ts'
import type { Clock } from '../packages/gateway/src/ports.ts'
import { openPostgresStore } from '../packages/gateway/src/store/postgres/postgres.ts'
import { options } from './catalogue.ts'
import { cpuMicrosOf } from './engines.ts'
import { median } from './figures.ts'

const { rounds, seconds, pace } = options('postgres')
const server = process.env.SLUICE_TEST_POSTGRES
if (server === undefined)
  throw new Error('no PostgreSQL: npm run services -- run postgres -- npm run bench -- postgres')

const clock: Clock = {
  now: Date.now,
  monotonic: () => performance.now(),
  at: () => () => {},
  soon: (callback) => {
    setImmediate(callback)
  },
}
const schema = `bench_${process.pid}`
const address = readPostgresAddress(`${server}?schema=${schema}`, () => '')
const raw = new pg.Client({ connectionString: server })
await raw.connect()
const store = await openPostgresStore({ address, clock, version: 'bench', alone: true })
await raw.query(`CREATE TABLE ${schema}.plain (id text COLLATE "C" PRIMARY KEY, body json NOT NULL)`)

const run = Date.now().toString(32).toUpperCase()
let made = 0
const fresh = (dueAt = Date.now() + 3_600_000): Notification =>
  someNotification({
    id: `01K${run}${String(++made).padStart(14, '0')}`,
    tenant: `tenant-${made % 10}`,
    to: { id: `user-${made % 100_000}`, email: 'ada@example.com', timeZone: 'Europe/Rome' },
    content: { subject: 'Your order has left our warehouse', text: 'It is on its way to you. '.repeat(10) },
    createdAt: Date.now(),
    status: 'scheduled',
    dueAt,
  })
const batchOf = (size: number): readonly Notification[] => Array.from({ length: size }, () => fresh())

/** Rows a second with so many callers. */
async function throughput(write: () => Promise<unknown>, rows: number, callers = 8): Promise<number> {
  const begun = performance.now()
  let written = 0
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (performance.now() - begun < seconds * 1_000) {
        await write()
        written += rows
      }
    }),
  )
  return (written / (performance.now() - begun)) * 1_000
}

/** Milliseconds of a call: median and 99th percentile. */
function shown(what: string, times: number[]): void {
  const sorted = times.toSorted((a, b) => a - b)
  const p99 = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))]!
  console.log(
    `  ${what}: p50 ${median(sorted).toFixed(1)} ms, p99 ${p99.toFixed(1)} ms (${sorted.length} calls)`,
  )
}

async function timed(run: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await run()
  return performance.now() - begun
}

async function insertPlain(): Promise<void> {
  const rows = batchOf(500).map((each) => ({ id: each.id, body: each }))
  const text = `INSERT INTO ${schema}.plain SELECT id, body FROM json_to_recordset($1) AS x(id text, body json)`
  await raw.query(text, [JSON.stringify(rows)])
}

const sentEvents = [
  { at: Date.now(), status: 'sending' },
  { at: Date.now(), status: 'delivered' },
] as const

const shares: number[] = []
for (let round = 1; round <= rounds; round += 1) {
  const ours = await throughput(() => store.commit({ accept: batchOf(100) }), 100)
  // The store writes what waits for it in groups of 500: as many rows share a flush here.
  const plain = await throughput(insertPlain, 500, 1)
  shares.push(ours / plain)
  console.log(
    `  round ${round}: ${ours.toFixed(0)} accepted/s in groups of 100, ${plain.toFixed(0)} plain rows/s, ratio ${(ours / plain).toFixed(2)}`,
  )
}
console.log(`  ratio by the median: ${median(shares).toFixed(2)} (goal 0.40)`)
console.log(
  `  singles, 8 callers: ${(await throughput(() => store.commit({ accept: [fresh()] }), 1)).toFixed(0)}/s`,
)

const paced: Promise<number>[] = []
const from = performance.now()
for (let sent = 0; sent < pace * seconds; ) {
  const due = Math.floor(((performance.now() - from) / 1_000) * pace)
  for (; sent < due; sent += 1) paced.push(timed(() => store.commit({ accept: [fresh()] })))
  await new Promise((resolve) => setImmediate(resolve))
}
shown(`singles at ${pace}/s`, await Promise.all(paced))

const claims: number[] = []
const begins: number[] = []
for (let n = 0; n < 20; n += 1) {
  const dueAt = Date.now() - 1_000
  await store.commit({ accept: Array.from({ length: 500 }, () => fresh(dueAt)) })
  const begun = performance.now()
  const claimed = await store.claimDue(Date.now(), 500)
  claims.push(performance.now() - begun)
  for (let at = 0; at + 10 <= claimed.length && at < 100; at += 10)
    begins.push(
      await timed(async () =>
        store.begin(claimed.slice(at, at + 10).map((notification) => ({ notification })) as never),
      ),
    )
}
shown('a claim of 500', claims)
shown('the right to send for ten', begins)

if (process.platform === 'linux') {
  const { rows } = await raw.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  // The parent of each connection's process is the server itself.
  const server = Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${rows[0]!.pid}/stat`, 'utf8'))![1])
  for (const size of [1, 10, 100]) {
    const groups = Array.from({ length: Math.max(10, 1_000 / size) }, () =>
      Array.from({ length: size }, () => ({ ...fresh(Date.now() - 1_000), status: 'queued' as const })),
    )
    const steps = {
      accept: (group: readonly Notification[]) => store.commit({ accept: group }),
      begin: async (group: readonly Notification[]) =>
        store.begin(group.map((notification) => ({ notification }))),
      settle: (group: readonly Notification[]) =>
        store.commit({ moves: group.map((each) => advance(each, sentEvents, { firedAt: Date.now() })) }),
    }
    for (const [what, step] of Object.entries(steps)) {
      const before = cpuMicrosOf(server)
      for (const group of groups) await step(group)
      const micros = (cpuMicrosOf(server) - before) / (groups.length * size)
      console.log(`  CPU of the server to ${what} a message in groups of ${size}: ${micros.toFixed(0)} µs`)
    }
  }
  for (let n = 0; n < 40; n += 1) {
    const group = Array.from({ length: 500 }, () => ({ ...fresh(), status: 'queued' as const }))
    await store.commit({ accept: group })
    await store.commit({ moves: group.map((each) => advance(each, sentEvents, { firedAt: Date.now() })) })
  }
  await raw.query(`VACUUM ${schema}.notification, ${schema}.outcome`)
  const before = cpuMicrosOf(server)
  const begun = performance.now()
  const { rows: removed } = await store.prune({ answers: 0, notifications: Date.now() + 1 })
  const seconds = (performance.now() - begun) / 1_000
  await raw.query(`VACUUM ${schema}.notification, ${schema}.outcome`)
  const micros = (cpuMicrosOf(server) - before) / removed
  console.log(
    `  to remove ${removed} that have ended, vacuum included: ${micros.toFixed(1)} µs each, ${(removed / seconds).toFixed(0)} a second`,
  )
}
await store.close()
await raw.query(`DROP SCHEMA ${schema} CASCADE`)
await raw.end()
