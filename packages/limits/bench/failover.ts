/**
 * A master of a Redis Cluster is killed under load, twice: once by callers who do nothing about it, once by callers who
 * after an outage first restore a subject by id from their own record, as the guide says. Each window of the merged log
 * of what was admitted is counted literally. What the dead master had answered and not yet replicated is lost: without
 * `restore` that many calls may be admitted again, with it none.
 *
 *     node --conditions=sluice-source packages/limits/bench/failover.ts [--seconds 25] [--clients 4]
 */
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Cluster, Redis } from 'ioredis'
import { startRedisCluster } from '../../../scripts/services/redis-cluster.ts'
import { createLimits, LimitsError, limit, type RestoredEntry, redisStore } from '../src/index.ts'

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '25' }, clients: { type: 'string', default: '4' } },
})
const loadMs = Number(values.seconds) * 1_000
const subjects = Array.from({ length: 60 }, (_, index) => `user:${index}`)
const windows = [
  { max: 40, windowMs: 2_000 },
  { max: 300, windowMs: 20_000 },
]
const rules = [limit('all', windows.map(({ max, windowMs }) => `${max}/${windowMs}ms`).join(', '))]
const loopsPerClient = 12

interface Admitted {
  readonly id: string
  readonly at: number
}

function overIn(log: readonly Admitted[]): number {
  const instants = log.map(({ at }) => at).sort((a, b) => a - b)
  let over = 0
  for (const { max, windowMs } of windows)
    for (let first = 0; first + max < instants.length; first += 1)
      if (instants[first + max]! - instants[first]! < windowMs) over += 1
  return over
}

async function run(restores: boolean): Promise<void> {
  const service = await startRedisCluster({ replicas: 1, nodeTimeoutMs: 800 })
  const nodes = service.env.SLUICE_TEST_REDIS_CLUSTER!.split(',').map((url) => ({
    host: new URL(url).hostname,
    port: Number(new URL(url).port),
  }))
  const clients = Array.from({ length: Number(values.clients) }, () => {
    const client = new Cluster(nodes, { enableAutoPipelining: true, clusterRetryStrategy: () => 50 })
    client.on('error', () => {})
    return client
  })
  const log = new Map<string, Admitted[]>(subjects.map((subject) => [subject, []]))
  /** The number of outages, and the last one after which each subject was restored. */
  let outages = 0
  const restoredAt = new Map<string, number>()
  const restoring = new Map<string, Promise<void>>()
  let [calls, failed, refused, ids] = [0, 0, 0, 0]
  const endsMs = performance.now() + loadMs

  async function loop(client: Cluster): Promise<void> {
    const limits = createLimits({ store: redisStore(client, { deadlineMs: 250 }) })
    const recover = async (subject: string): Promise<void> => {
      const outage = outages
      const entries = log
        .get(subject)!
        .map(({ id, at }): RestoredEntry => ({ id, at, fired: true, streams: ['all'] }))
      await limits.restore(subject, entries.slice(-windows[1]!.max))
      restoredAt.set(subject, outage)
    }
    while (performance.now() < endsMs) {
      const subject = subjects[Math.floor(Math.random() * subjects.length)]!
      ids += 1
      const id = `n${ids}`
      calls += 1
      try {
        if (restores && (restoredAt.get(subject) ?? 0) < outages) {
          const under = restoring.get(subject) ?? recover(subject).finally(() => restoring.delete(subject))
          restoring.set(subject, under)
          await under
          // Another outage may have begun meanwhile.
          if ((restoredAt.get(subject) ?? 0) < outages) continue
        }
        const { allowed, at } = await limits.take(subject, rules, { id })
        if (allowed) log.get(subject)!.push({ id, at })
        else refused += 1
      } catch (error) {
        if (!(error instanceof LimitsError)) throw error
        failed += 1
        outages += 1
        await sleep(20)
      }
    }
  }

  const loops = clients.flatMap((client) => Array.from({ length: loopsPerClient }, () => loop(client)))
  await sleep(loadMs / 3)
  const slot = Number(await clients[0]!.cluster('KEYSLOT', 'sluice:{user:0}'))
  const [host, port] = (await clients[0]!.cluster('SLOTS')).find(
    ([from, to]) => from <= slot && slot <= to,
  )![2]!
  const master = new Redis({ host, port, retryStrategy: () => null })
  master.on('error', () => {})
  const pid = Number(/process_id:(\d+)/.exec(await master.info('server'))![1])
  process.kill(pid, 'SIGKILL')
  const killedMs = Date.now()
  await Promise.all(loops)
  // Admissions from before the kill that the new master does not know.
  let lost = 0
  const patient = createLimits({ store: redisStore(clients[0]!, { deadlineMs: 20_000 }) })
  if (!restores)
    for (const [subject, admitted] of log)
      for (const { id, at } of admitted.filter((one) => one.at < killedMs && one.at > killedMs - 1_000))
        if (!(await patient.cancel(subject, id)) && at > Date.now() - windows[1]!.windowMs) lost += 1
  let over = 0
  let admittedCount = 0
  for (const admitted of log.values()) {
    over += overIn(admitted)
    admittedCount += admitted.length
  }
  console.log(
    `${restores ? 'restored by id' : 'nothing done'}: ${calls} calls, ${admittedCount} admitted, ${refused} refused, ${failed} failed; ${restores ? '' : `${lost} answered and lost; `}${over} windows over`,
  )
  if (restores && over > 0) process.exitCode = 1
  master.disconnect()
  for (const client of clients) client.disconnect()
  await service.stop()
}

await run(false)
await run(true)
