/**
 * Two gateways whose Redis goes away: one of them keeps the limits of both, and sends what the policy shares; all else is
 * held. No window is over, also where the one that keeps them dies, or is stopped and woken, and when Redis comes back.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import { startRedisCluster } from '../../../../scripts/services/redis-cluster.ts'
import type { Site } from '../child.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { type Call, callsOfTenant, startFleet } from './fleet.ts'
import { overfull } from './windows.ts'

const windowMs = 3_000
const policy = {
  version: 1,
  limits: [{ name: 'few', for: 'any', max: ['2/3s'], over: 'delay' }],
  onStateLost: { default: 'hold', security: 'share' },
}

interface Posted {
  readonly notificationId: string
  readonly status: string
}

const assertNoneOver = (calls: readonly Call[]): void => {
  for (const [recipient, own] of Map.groupBy(calls, (call) => call.recipient))
    assert.equal(
      overfull(
        own.map(({ at }) => at),
        { max: 2, windowMs },
      ),
      0,
      recipient,
    )
}

/** Waits for the gateway that keeps the limits. */
async function keeperOf(sites: readonly Site[]): Promise<Site> {
  for (const until = performance.now() + 60_000; performance.now() < until; await sleep(100))
    for (const site of sites)
      if ((await site.call('GET', '/readyz')).text.includes('this process keeps the limits')) return site
  throw new Error('no gateway keeps the limits within 60 s')
}

async function pidOf(url: string): Promise<number> {
  const admin = new Redis(url)
  try {
    return Number(/^process_id:(\d+)/m.exec(await admin.info('server'))![1])
  } finally {
    admin.disconnect()
  }
}

/** A Redis, or a cluster of three, of this test alone. */
async function startOwn(t: TestContext, isCluster = false) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-share-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const service = await (isCluster ? startRedisCluster({ folder }) : startRedis({ folder }))
  t.after(() => service.stop())
  const urls = isCluster ? service.env.SLUICE_TEST_REDIS_CLUSTER!.split(',') : [service.url]
  const pids = await Promise.all(urls.map(pidOf))
  return {
    url: isCluster ? `redis-cluster://${urls.join(',').replaceAll('redis://', '')}` : service.url,
    signal(name: 'SIGSTOP' | 'SIGCONT'): void {
      for (const pid of pids) process.kill(pid, name)
    },
  }
}

/** Stops Redis and then the gateway that keeps the limits, for good or for a while, and starts Redis again. */
async function loseBoth(
  t: TestContext,
  name: string,
  keeper: 'killed' | 'stopped',
  isCluster = false,
): Promise<void> {
  const redis = await startOwn(t, isCluster)
  const fleet = await startFleet(t, {
    name,
    redis: redis.url,
    tenants: { limited: { rate: '100/s' } },
    policy,
    rate: ['50/s'],
    config: { log: { level: 'info' } },
  })
  const ids = { shared: [] as string[], held: [] as string[] }
  const post = async (at: number, category: 'security' | 'social', n: number): Promise<void> => {
    const body = { category, recipient: { id: `r${n % 3}` } }
    const answer = await fleet.post(at, { tenant: 'limited', body })
    assert.equal(answer.status, 202, answer.text)
    ids[category === 'security' ? 'shared' : 'held'].push(answer.json<Posted>().notificationId)
  }
  const sentOf = (calls: readonly Call[], of: readonly string[]): number =>
    new Set(calls.map(({ id }) => id).filter((id) => of.includes(id))).size
  const sharedAreSent = async (count: number): Promise<void> => {
    const calls = await callsOfTenant(fleet, 'limited', count, 60_000)
    assert.equal(
      sentOf(calls, ids.shared),
      count,
      'what is shared is sent without Redis, whoever accepted it',
    )
    assert.equal(sentOf(calls, ids.held), 0, 'what is held is not sent')
  }

  // The sends before count.
  for (let n = 0; n < 6; n += 1) await post(n % 2, 'security', n)
  await callsOfTenant(fleet, 'limited', 6, 30_000)

  redis.signal('SIGSTOP')
  for (let n = 0; n < 6; n += 1) await post(n % 2, 'security', n)
  for (let n = 0; n < 4; n += 1) await post(n % 2, 'social', n)
  const first = await keeperOf(fleet.sites)
  await sharedAreSent(12)

  // The other one takes its place.
  const second = fleet.sites.find((site) => site !== first)!
  const other = fleet.sites.indexOf(second)
  if (keeper === 'killed') await first.kill()
  else process.kill(first.pid!, 'SIGSTOP')
  for (let n = 0; n < 3; n += 1) await post(other, 'security', n)
  await keeperOf([second])
  await sharedAreSent(15)
  if (keeper === 'stopped') {
    // It finds that it was declared dead, and ends without a further call.
    process.kill(first.pid!, 'SIGCONT')
    for (const until = performance.now() + 30_000; first.exit === undefined && performance.now() < until; )
      await sleep(100)
    assert.match(first.log(), /"event":"gateway\.declared_dead"/)
    for (let n = 0; n < 3; n += 1) await post(other, 'security', n)
    await sharedAreSent(18)
  }
  assert.match((await second.call('GET', '/metrics')).text, /^sluice_limits_kept\{by="this_process"\} 1$/m)

  redis.signal('SIGCONT')
  const total = ids.shared.length + ids.held.length
  const calls = await callsOfTenant(fleet, 'limited', total, 60_000)
  for (const posted of [ids.shared, ids.held]) assert.equal(sentOf(calls, posted), posted.length)
  assertNoneOver(calls)
  assert.match(second.log(), /"event":"gateway.limits_kept".*"by":"this process"/)
}

/** One of two gateways is cut from Redis by its user, and let in again. */
async function cutOne(t: TestContext): Promise<void> {
  const { url } = await startOwn(t)
  const admin = new Redis(url)
  t.after(() => admin.disconnect())
  await admin.call('ACL', 'SETUSER', 'second', 'on', '>password', '~*', '&*', '+@all')
  const fleet = await startFleet(t, {
    name: 'share_cut',
    redis: url,
    redisUserOf: (n) => (n === 0 ? undefined : 'second:password'),
    tenants: { limited: { rate: '100/s' } },
    policy,
    rate: ['50/s'],
  })
  const ids: [string[], string[]] = [[], []]
  const post = async (at: 0 | 1, n: number): Promise<string | undefined> => {
    const body = { category: 'security', recipient: { id: `r${n % 3}` } }
    const answer = await fleet.post(at, { tenant: 'limited', body })
    const { notificationId, decision } = answer.json<Posted & { decision: { reason?: string } }>()
    ids[at].push(notificationId)
    return decision.reason
  }
  const degradedOf = async (site: Site) =>
    (await site.call('GET', '/readyz')).json<{ degraded?: readonly string[] }>().degraded ?? []

  for (let n = 0; n < 3; n += 1) await post(1, n)
  await callsOfTenant(fleet, 'limited', 3, 30_000)
  await admin.call('ACL', 'SETUSER', 'second', 'off')
  await admin.call('CLIENT', 'KILL', 'USER', 'second')
  // Longer than gateways wait before one of them keeps the limits of all.
  for (const until = performance.now() + 5_000; performance.now() < until; await sleep(500))
    assert.equal(await post(1, ids[1].length), 'state_unavailable')
  for (let n = 0; n < 6; n += 1) assert.notEqual(await post(0, n), 'state_unavailable')
  assert.deepEqual(await degradedOf(fleet.sites[0]!), [])
  const [state, ...others] = await degradedOf(fleet.sites[1]!)
  assert.match(state!, /^state: /)
  assert.deepEqual(others, [], 'nobody keeps the limits')
  const before = await callsOfTenant(fleet, 'limited', 9, 60_000)
  assert.deepEqual(new Set(before.map(({ id }) => id)), new Set([...ids[1].slice(0, 3), ...ids[0]]))

  await admin.call('ACL', 'SETUSER', 'second', 'on')
  const total = ids[0].length + ids[1].length
  const calls = await callsOfTenant(fleet, 'limited', total, 60_000)
  assert.equal(new Set(calls.map(({ id }) => id)).size, total)
  assertNoneOver(calls)
}

/** All at once: they wait most of the time. */
describe('two gateways without their Redis', { ...needs('postgres', 'redis'), concurrency: 4 }, () => {
  after(dropSchemas)

  test('send what is shared within the limits, hold all else, and take over from each other', (t) =>
    loseBoth(t, 'share', 'killed'))

  test('go on alike where the one that kept the limits was stopped, and wakes', (t) =>
    loseBoth(t, 'share_stopped', 'stopped'))

  test('go on alike without a cluster', (t) => loseBoth(t, 'share_cluster', 'killed', true))

  test(
    'hold at the one that alone is cut from it, while the other goes on, and nobody keeps the limits',
    cutOne,
  )
})
