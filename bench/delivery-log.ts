/**
 * The delivery log in Cassandra. `exact` makes 100,000 changes of state, freezes Cassandra for a minute in the middle and
 * kills the gateway meanwhile; in the end the log must have every change that the store has, once, and nothing else, else
 * the exit code is 1. `cost` compares a gateway that logs with one that does not, in turn, by what they accept and by the
 * CPU of their processes; Cassandra takes CPU of the same machine.
 *
 *   node --conditions=sluice-source bench/delivery-log.ts exact [--changes 100000] [--away 60]
 *   node --conditions=sluice-source bench/delivery-log.ts cost [--rounds 7] [--seconds 4]
 */
import { readFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import cassandra from 'cassandra-driver'
import { createSystemClock } from '../packages/gateway/src/adapters/clock.ts'
import { statuses } from '../packages/gateway/src/model.ts'
import { createSqliteStore } from '../packages/gateway/src/store/sqlite/sqlite.ts'
import { createSite, type Site } from '../packages/gateway/test/child.ts'
import { startCassandra } from '../scripts/services/cassandra.ts'
import { median } from './figures.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    changes: { type: 'string', default: '100000' },
    away: { type: 'string', default: '60' },
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '4' },
  },
})
const batchMax = 100
/** Recipients of all notifications: each has several in its partition. */
const recipients = 5_000
const ends: (() => unknown)[] = []
const cleanup = { after: (end: () => unknown) => void ends.push(end) } as Parameters<typeof createSite>[0]
let posted = 0

const recipient = () => {
  posted += 1
  return { id: `r-${posted % recipients}`, email: `r-${posted % recipients}@example.com` }
}
const content = () => ({ subject: `Message ${posted}`, text: 'It is on its way to you. '.repeat(10) })

/** Posts one notification, or a batch; returns the number that was accepted. */
async function post(site: Site, size: number): Promise<number> {
  const message = { channel: 'email', category: 'product' }
  const answer =
    size === 1
      ? await site.call('POST', '/api/v1/notifications', {
          ...message,
          recipient: recipient(),
          content: content(),
        })
      : await site.call('POST', '/api/v1/notifications/batch', {
          ...message,
          content: content(),
          recipients: Array.from({ length: size }, recipient),
        })
  if (answer.status !== 202) throw new Error(`${answer.status} ${answer.text}`)
  return size
}

/** The value of a metric without labels, or the sum over its labels. */
async function metric(site: Site, name: string): Promise<number> {
  const { text } = await site.call('GET', '/metrics')
  const found = text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? ([\\d.]+)$`, 'gm'))
  return [...found].reduce((sum, [, value]) => sum + Number(value), 0)
}

/** Notifications that have not been delivered or ended. */
async function open(site: Site): Promise<number> {
  const { text } = await site.call('GET', '/metrics')
  const waiting = /^sluice_notifications\{status="(?:scheduled|queued|sending|digesting)"\} (\d+)$/gm
  return [...text.matchAll(waiting)].reduce((sum, [, count]) => sum + Number(count), 0)
}

const percentile = (list: readonly number[], share: number): number =>
  Math.round(list.toSorted((a, b) => a - b)[Math.floor(list.length * share)] ?? 0)

interface Posting {
  readonly accepted: number
  /** Times of the single posts, ms. */
  readonly took: readonly number[]
}

/** Posts singles and batches at a pace until so many are accepted; a call that a kill cuts off is not counted. */
async function postAll(siteOf: () => Site, count: number, perSecond: number): Promise<Posting> {
  const took: number[] = []
  let accepted = 0
  const begunAt = performance.now()
  while (accepted < count) {
    const at = performance.now()
    try {
      accepted += await post(siteOf(), 1)
      took.push(performance.now() - at)
      accepted += await post(siteOf(), Math.min(batchMax, Math.max(2, count - accepted)))
    } catch {
      await wait(200)
    }
    await wait(Math.max(0, begunAt + (accepted * 1_000) / perSecond - performance.now()))
  }
  return { accepted, took }
}

async function until(what: string, holds: () => Promise<boolean>, seconds: number): Promise<number> {
  const begunAt = performance.now()
  while (!(await holds().catch(() => false))) {
    if (performance.now() - begunAt > seconds * 1_000) throw new Error(`${what} took over ${seconds} s`)
    await wait(250)
  }
  return Math.round(performance.now() - begunAt) / 1_000
}

async function exact(): Promise<boolean> {
  const awaySeconds = Number(values.away)
  // Accepted, queued, sending, delivered.
  const notifications = Math.ceil(Number(values.changes) / 4)
  const service = await startCassandra()
  ends.push(() => service.stop())
  const policy = { version: 1 }
  const config = { deliveryLog: `cassandra://${service.url}/sluice`, log: { level: 'warn' } }
  const site = await createSite(cleanup, { policy, config })
  await site.start()
  const part = Math.floor(notifications / 4)
  const before = await postAll(() => site, part, 2_000)
  process.kill(service.pid, 'SIGSTOP')
  const frozenAt = performance.now()
  const during = await postAll(() => site, part, part / (awaySeconds / 2))
  const notSent = await until(
    'what was accepted while it was frozen',
    async () => (await open(site)) === 0,
    30,
  )
  const degraded = (await site.call('GET', '/readyz')).text
  const killed = postAll(() => site, part, part / (awaySeconds / 3))
  await wait((awaySeconds * 1_000) / 6)
  await site.kill()
  await site.start()
  const { accepted } = await killed
  await wait(Math.max(0, frozenAt + awaySeconds * 1_000 - performance.now()))
  const waited = await metric(site, 'sluice_delivery_log_waiting')
  process.kill(service.pid, 'SIGCONT')
  const after = await postAll(() => site, notifications - before.accepted - during.accepted - accepted, 2_000)
  const isLogged = async () =>
    (await open(site)) === 0 && (await metric(site, 'sluice_delivery_log_waiting')) === 0
  await until('the sending', async () => (await open(site)) === 0, 120)
  const drained = await until('the log', isLogged, 300)
  await wait(1_500)
  await until('the log', isLogged, 60)
  const lost = await metric(site, 'sluice_delivery_log_lost_total')
  await site.terminate()

  const store = createSqliteStore({
    path: join(site.folder, 'data', 'sluice.db'),
    clock: createSystemClock(),
    isLogged: true,
  })
  const left = await store.outbox!.size()
  const expected = new Map<string, string>()
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await store.scan({ statuses, limit: 1_000, ...(cursor === undefined ? {} : { cursor }) })
    for (const { id, timeline } of page.items)
      for (const [seq, { at, status }] of timeline.entries()) expected.set(`${id}/${seq}`, `${at} ${status}`)
    cursor = page.nextCursor
  }
  await store.close()
  const { host, username, password } = new URL(`cassandra://${service.url}`)
  const client = new cassandra.Client({
    contactPoints: [host],
    localDataCenter: 'datacenter1',
    credentials: { username, password },
  })
  ends.push(() => client.shutdown())
  const found = new Map<string, number>()
  let [other, unknown] = [0, 0]
  const rows = await client.execute('SELECT notification_id, seq, at, status FROM sluice.delivery_log', [], {
    prepare: true,
    fetchSize: 2_000,
  })
  for await (const row of rows) {
    const key = `${row.notification_id}/${row.seq}`
    found.set(key, (found.get(key) ?? 0) + 1)
    if (!expected.has(key)) unknown += 1
    else if (expected.get(key) !== `${(row.at as Date).getTime()} ${row.status}`) other += 1
  }
  const missing = [...expected.keys()].filter((key) => !found.has(key)).length
  const twice = [...found.values()].filter((count) => count > 1).length
  console.log(
    JSON.stringify(
      {
        load: loadavg()[0],
        changes: expected.size,
        logged: found.size,
        ...{ missing, twice, other, unknown, lost, left },
        frozenSeconds: awaySeconds,
        waitedForLog: waited,
        drainedSeconds: drained,
        singleMs: {
          before: { p50: percentile(before.took, 0.5), p99: percentile(before.took, 0.99) },
          frozen: { p50: percentile(during.took, 0.5), p99: percentile(during.took, 0.99) },
          after: { p50: percentile(after.took, 0.5), p99: percentile(after.took, 0.99) },
        },
        sentWhileFrozenWithinSeconds: notSent,
        degraded,
      },
      null,
      2,
    ),
  )
  return missing + twice + other + unknown + lost + left === 0 && expected.size >= Number(values.changes)
}

/** CPU of a process so far, ms: fields 14 and 15 of /proc/<pid>/stat in ticks of 10 ms (proc(5)). */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Posts for some seconds; returns what a second and a millisecond of CPU brought, until all of it was delivered. */
async function round(site: Site, size: number): Promise<{ perSecond: number; perCpuMs: number }> {
  const [begunAt, cpu] = [performance.now(), cpuMs(site.pid!)]
  let accepted = 0
  await Promise.all(
    Array.from({ length: size === 1 ? 16 : 4 }, async () => {
      while (performance.now() - begunAt < Number(values.seconds) * 1_000) accepted += await post(site, size)
    }),
  )
  const perSecond = (accepted * 1_000) / (performance.now() - begunAt)
  await until('the sending', async () => (await open(site)) === 0, 120)
  // The writer of the log looks each second.
  await wait(1_200)
  return { perSecond, perCpuMs: accepted / (cpuMs(site.pid!) - cpu) }
}

async function cost(): Promise<boolean> {
  const service = await startCassandra()
  ends.push(() => service.stop())
  const policy = { version: 1 }
  const sites: Site[] = []
  for (const deliveryLog of ['store', `cassandra://${service.url}/sluice`]) {
    sites.push(await createSite(cleanup, { policy, config: { deliveryLog, log: { level: 'error' } } }))
    await sites.at(-1)!.start()
  }
  for (const site of sites) for (const size of [1, batchMax]) await round(site, size)
  const ratios = {
    singles: [] as number[],
    singlesCpu: [] as number[],
    batches: [] as number[],
    batchesCpu: [] as number[],
  }
  for (let index = 0; index < Number(values.rounds); index += 1)
    for (const size of [1, batchMax]) {
      const order = index % 2 === 0 ? sites : sites.toReversed()
      const results = new Map<Site, Awaited<ReturnType<typeof round>>>()
      for (const site of order) results.set(site, await round(site, size))
      const [off, on] = sites.map((site) => results.get(site)!)
      const kind = size === 1 ? 'singles' : 'batches'
      ratios[kind].push(on!.perSecond / off!.perSecond)
      ratios[`${kind}Cpu`].push(on!.perCpuMs / off!.perCpuMs)
      console.log(
        `${kind}: ${off!.perSecond.toFixed(0)} → ${on!.perSecond.toFixed(0)}/s, per ms of CPU ${off!.perCpuMs.toFixed(2)} → ${on!.perCpuMs.toFixed(2)}`,
      )
    }
  const medians = Object.fromEntries(
    Object.entries(ratios).map(([name, list]) => [name, Math.round(median(list) * 1_000) / 1_000]),
  )
  console.log(JSON.stringify({ load: loadavg()[0], withLogToWithout: medians }))
  return true
}

try {
  const isRight = positionals[0] === 'cost' ? await cost() : await exact()
  process.exitCode = isRight ? 0 : 1
} finally {
  for (const end of ends.toReversed()) await end()
}
