/**
 * Feedback events that are on disk in a second: over sockets and through the service alone (correlated, applied, recorded),
 * in requests of so many events, beside rows that are inserted into the same table in one transaction each batch. One in
 * twenty opts out. The client shares the process, so the figures over sockets are the least that the gateway does.
 *
 *     node --conditions=sluice-source bench/feedback.ts [seconds] [postgres://…]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '../packages/gateway/src/config/load.ts'
import { someNotification } from '../packages/gateway/src/conformance/store/sample.ts'
import { createGateway } from '../packages/gateway/src/gateway.ts'

const seconds = Number(process.argv[2] ?? 5)
const notifications = 20_000
const cwd = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
const path = join(cwd, 'sluice.yaml')
const unlimited = { rate: 'unlimited', modules: 'unlimited', reads: 'unlimited', writes: 'unlimited' }
const settings = {
  store: process.argv[3] ?? `sqlite:${join(cwd, 'b.db')}`,
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

/** Runs calls, so many at once, for the given time; returns events a second. */
async function rate(
  atOnce: number,
  perCall: number,
  call: (count: number) => Promise<void>,
): Promise<number> {
  const end = performance.now() + seconds * 1_000
  const begin = performance.now()
  let done = 0
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (performance.now() < end) {
        await call(perCall)
        done += perCall
      }
    }),
  )
  return done / ((performance.now() - begin) / 1_000)
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
  [64, 1],
  [8, 100],
  [4, 500],
] as const) {
  const overSockets = await rate(atOnce, perCall, post)
  const through = await rate(atOnce, perCall, report)
  const raw = await rate(atOnce, perCall, insert)
  console.log(
    `${atOnce} requests at once of ${perCall}: ${Math.round(overSockets)} events/s over sockets, ${Math.round(through)} events/s through the service, ${Math.round(raw)} rows/s inserted alone`,
  )
}
await gateway.stop()
rmSync(cwd, { recursive: true })
