/**
 * A master dies and its replica takes over, under Sentinel and in a cluster. In between each call ends by its deadline
 * as the options say, and the first one that is answered again knows what had been replicated.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import { createSentinel } from 'redis'
import { startRedisCluster } from '../../../../scripts/services/redis-cluster.ts'
import { sentinelMaster, startRedisSentinel } from '../../../../scripts/services/redis-sentinel.ts'
import { createLimits, LimitsError, limit, type RedisClient, redisStore } from '../../src/index.ts'

const rules = [limit('four', '4/day')]
const deadlineMs = 250
/** A busy machine may run a timer late; a call without a deadline would take for ever. */
const latenessMs = 5_000
const failoverMs = 30_000

/** Records the answers that a caller gets before, while and after `kill` ends the master that holds `user`. */
async function exercise(t: TestContext, client: RedisClient, kill: () => Promise<void>): Promise<void> {
  const patient = createLimits({ store: redisStore(client, { deadlineMs: 20_000 }) })
  const strict = createLimits({ store: redisStore(client, { deadlineMs }) })
  const refusing = createLimits({ store: redisStore(client, { deadlineMs, onUnavailable: 'refuse' }) })
  const inTime = async <T>(call: () => Promise<T>): Promise<T> => {
    const startMs = performance.now()
    try {
      return await call()
    } finally {
      const tookMs = performance.now() - startMs
      assert.ok(tookMs < deadlineMs + latenessMs, `a call took ${tookMs} ms`)
    }
  }
  await patient.take('user', rules, { id: 'n1' })
  await patient.reserve('user', rules, { id: 'n2' })
  await patient.fire('user', 'n2', rules)
  await kill()

  const killedMs = performance.now()
  let failed = 0
  let refused = 0
  let found: { readonly used: number; readonly allowed: boolean } | undefined
  while (found === undefined && performance.now() - killedMs < failoverMs) {
    const shown = await inTime(() => refusing.check('user', rules))
    if (shown.rules.length === 0) {
      assert.deepEqual([shown.allowed, shown.retryAfterMs], [false, 1_000])
      refused += 1
    }
    try {
      const decision = await inTime(() => strict.check('user', rules))
      found = { used: decision.rules[0]!.used, allowed: decision.allowed }
    } catch (error) {
      assert.ok(error instanceof LimitsError && error.code === 'STORE_UNAVAILABLE', String(error))
      failed += 1
      await wait(20)
    }
  }
  t.diagnostic(
    `${failed} calls failed, ${refused} were refused, in ${Math.round(performance.now() - killedMs)} ms`,
  )
  assert.ok(failed + refused > 0, 'the master was missed by somebody')
  assert.deepEqual(found, { used: 2, allowed: true })
  assert.equal((await patient.fire('user', 'n2', rules)).rules[0]!.used, 1, 'its own entry is known')
  assert.equal((await patient.take('user', rules, { id: 'n1' })).allowed, true)
  const last = [
    await patient.take('user', rules),
    await patient.take('user', rules),
    await patient.take('user', rules),
  ]
  assert.deepEqual(
    last.map(({ allowed }) => allowed),
    [true, true, false],
  )
}

const addressOf = (url: string) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) })

/** Ends the process of the server behind this connection, once a replica has everything. */
async function killBehind(server: Redis): Promise<void> {
  // WAIT waits for this connection's own writes, and what was written before them is there with them.
  await server.set('last', '1')
  assert.equal(await server.wait(1, 10_000), 1)
  const pid = Number(/process_id:(\d+)/.exec(await server.info('server'))![1])
  process.kill(pid, 'SIGKILL')
}

describe('the Redis store in a failover', () => {
  for (const [name, open] of [
    ['ioredis', openIoredis],
    ['node-redis', openNodeRedis],
  ] as const) {
    it(`under Sentinel, over ${name}: in time, as declared, and right afterwards`, async (t) => {
      const service = await startRedisSentinel()
      t.after(() => service.stop())
      const sentinel = new Redis(service.url, { lazyConnect: true })
      const [host, port] = (await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', sentinelMaster)) as [
        string,
        string,
      ]
      sentinel.disconnect()
      const master = new Redis({ host, port: Number(port), retryStrategy: () => null })
      master.on('error', () => {})
      t.after(() => master.disconnect())
      await exercise(t, await open(t, service.url), () => killBehind(master))
    })
  }

  it('in a cluster: in time, as declared, and right afterwards', async (t) => {
    const service = await startRedisCluster({ replicas: 1, nodeTimeoutMs: 800 })
    t.after(() => service.stop())
    const nodes = service.env.SLUICE_TEST_REDIS_CLUSTER!.split(',').map(addressOf)
    const client = new Cluster(nodes, { enableAutoPipelining: true, clusterRetryStrategy: () => 50 })
    client.on('error', () => {})
    t.after(() => client.disconnect())
    await exercise(t, client, async () => {
      const slot = Number(await client.cluster('KEYSLOT', 'sluice:{user}'))
      const ranges = await client.cluster('SLOTS')
      const [host, port] = ranges.find(([from, to]) => from <= slot && slot <= to)![2]!
      const master = new Redis({ host, port, retryStrategy: () => null })
      master.on('error', () => {})
      t.after(() => master.disconnect())
      await killBehind(master)
    })
  })
})

async function openIoredis(t: TestContext, url: string): Promise<RedisClient> {
  const client = new Redis({
    sentinels: [addressOf(url)],
    name: sentinelMaster,
    enableAutoPipelining: true,
    sentinelRetryStrategy: () => 50,
    retryStrategy: () => 50,
  })
  client.on('error', () => {})
  t.after(() => client.disconnect())
  return client
}

async function openNodeRedis(t: TestContext, url: string): Promise<RedisClient> {
  const client = createSentinel({
    name: sentinelMaster,
    sentinelRootNodes: [addressOf(url)],
    scanInterval: 200,
  })
  client.on('error', () => {})
  await client.connect()
  t.after(() => client.destroy())
  return client
}
