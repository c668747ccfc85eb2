/**
 * Feedback events that are on disk in a second: over sockets and through the service alone (correlated, applied, recorded),
 * in requests of so many events, beside rows that are inserted into the same table in one transaction each batch. One in
 * twenty opts out. The client shares the process, so the figures over sockets are the least that the gateway does. Behind
 * each figure stands what an event costs, which hardly depends on what else the machine does: CPU of this process and of
 * PostgreSQL, and questions to PostgreSQL.
 *
 *     node --conditions=sluice-source bench/feedback.ts [seconds] [postgres://… [redis://…]]
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { loadConfig } from '../packages/gateway/src/config/load.ts'
import { someNotification } from '../packages/gateway/src/conformance/store/sample.ts'
import { createGateway } from '../packages/gateway/src/gateway.ts'

const seconds = Number(process.argv[2] ?? 5)
const postgres = process.argv[3]
/** With it the gateway is one of several, whose opt-outs wait until no other sends any more. */
const redis = process.argv[4]
const notifications = 20_000
const cwd = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
const path = join(cwd, 'sluice.yaml')
const unlimited = { rate: 'unlimited', modules: 'unlimited', reads: 'unlimited', writes: 'unlimited' }
const settings = {
  store: postgres ?? `sqlite:${join(cwd, 'b.db')}`,
  ...(redis === undefined ? {} : { state: redis }),
  http: { port: 0 },
  tenants: { default: unlimited },
  log: { level: 'error' },
}
writeFileSync(path, JSON.stringify(settings))
const gateway = await createGateway(loadConfig({ path, cwd, env: {} }))
const { url } = await gateway.start()
const { store, feedback } = gateway
const ids = Array.from({ length: notifications }, (_, n) => `01BENCH${String(n).padStart(19, '0')}`)
for (let begin = 0; begin < ids.length; begin += 500)
  await store.commit({
    accept: ids.slice(begin, begin + 500).map((id) =>
      someNotification({
        id,
        tenant: 'acme',
        to: { id: `user-${id}`, email: `${id}@example.com` },
        status: 'suppressed',
        attempts: 1,
        dueAt: Number.MAX_SAFE_INTEGER,
      }),
    ),
  })

let made = 0
const nextOf = () => {
  made += 1
  return {
    id: ids[made % ids.length]!,
    type: made % 20 === 0 ? ('complaint' as const) : ('open' as const),
    at: Date.now() - made,
  }
}

let questions = 0
const query = pg.Client.prototype.query
pg.Client.prototype.query = function (this: pg.Client, ...given: unknown[]) {
  questions += 1
  return Reflect.apply(query, this, given)
} as typeof query

const statOf = (pid: number | string): readonly string[] =>
  readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')

async function postmasterOf(url: string): Promise<string> {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid')
  const parent = statOf(rows[0].pid)[1]!
  await client.end()
  return parent
}
const postmaster = postgres === undefined ? undefined : await postmasterOf(postgres)

/** CPU of PostgreSQL on this machine so far, µs: of its processes, and of those that have ended. */
function postgresCpu(): number {
  if (postmaster === undefined) return 0
  let ticks = 0
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    try {
      const [, parent, ...rest] = statOf(pid)
      const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = rest.slice(9, 13).map(Number)
      if (pid === postmaster) ticks += endedUser + endedSystem
      if (parent === postmaster) ticks += user + system
    } catch {}
  return ticks * 10_000
}

/** Runs calls, so many at once, for the given time; returns events a second, and what an event costs. */
async function rate(
  atOnce: number,
  perCall: number,
  call: (count: number) => Promise<void>,
): Promise<string> {
  const end = performance.now() + seconds * 1_000
  const begin = performance.now()
  const before = { own: process.cpuUsage(), postgres: postgresCpu(), questions }
  let done = 0
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (performance.now() < end) {
        await call(perCall)
        done += perCall
      }
    }),
  )
  const perSecond = Math.round(done / ((performance.now() - begin) / 1_000))
  const { user, system } = process.cpuUsage(before.own)
  const costs = [`${Math.round((user + system) / done)} µs`]
  if (postmaster !== undefined)
    costs.push(
      `PostgreSQL ${Math.round((postgresCpu() - before.postgres) / done)} µs`,
      `${((questions - before.questions) / done).toFixed(3)} questions`,
    )
  return `${perSecond} (${costs.join(', ')})`
}

const report = async (count: number): Promise<void> => {
  const reports = Array.from({ length: count }, () => {
    const { id, ...rest } = nextOf()
    return { ...rest, notificationId: id }
  })
  await feedback.report(reports, { tenant: 'acme' })
}
const post = async (count: number): Promise<void> => {
  const events = Array.from({ length: count }, () => {
    const { id, type, at } = nextOf()
    return { notificationId: id, type, at: new Date(at).toISOString() }
  })
  const answer = await fetch(`${url}/api/v1/feedback`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-tenant-id': 'acme' },
    body: JSON.stringify(events),
  })
  if (answer.status !== 202) throw new Error(await answer.text())
  await answer.arrayBuffer()
}
const insert = async (count: number): Promise<void> => {
  const events = Array.from({ length: count }, () => {
    const { id, type, at } = nextOf()
    const of = { tenant: 'acme', channel: 'email', category: 'product' } as const
    return { ...of, notificationId: id, key: `raw ${made}`, type, at, keptAt: at }
  })
  await store.feedback.keep(events)
}
for (const [atOnce, perCall] of [
  [16, 1],
  [64, 1],
  [8, 100],
  [4, 500],
] as const) {
  const overSockets = await rate(atOnce, perCall, post)
  const through = await rate(atOnce, perCall, report)
  const raw = await rate(atOnce, perCall, insert)
  console.log(
    `${atOnce} requests at once of ${perCall}: ${overSockets} events/s over sockets, ${through} through the service, ${raw} rows inserted alone`,
  )
}
await gateway.stop()
rmSync(cwd, { recursive: true })
