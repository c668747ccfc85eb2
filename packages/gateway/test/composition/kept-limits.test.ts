/** A gateway that keeps the limits of its Redis, on real servers that answer and refuse. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import process from 'node:process'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import { startRedisCluster } from '../../../../scripts/services/redis-cluster.ts'
import { createSystemClock } from '../../src/adapters/clock.ts'
import type { LimitsKeeper } from '../../src/adapters/state/limits-keeper.ts'
import { createMemoryRegistrations } from '../../src/adapters/state/redis/memory-registrations.ts'
import { openKeptRedis } from '../../src/composition/kept-limits.ts'
import type { RuntimeContext } from '../../src/composition/runtime-context.ts'
import { readStateAddress } from '../../src/config/state-address.ts'

/** Stands before a server and passes the first answer of each connection on so much later, ms; it takes none while it is shut. */
async function startSlowGreeter(t: TestContext, { port, hostname }: URL, ms: number) {
  let isShut = false
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const behind = connect(Number(port), hostname)
    for (const socket of [client, behind]) socket.on('error', () => {}).on('close', () => client.destroy())
    sockets.add(client)
    client.on('close', () => behind.destroy())
    if (isShut) client.destroy()
    client.pipe(behind)
    behind.once('data', (greeting) => {
      behind.pause()
      setTimeout(() => {
        client.write(greeting)
        behind.pipe(client)
      }, ms)
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const shut = (is: boolean): void => {
    isShut = is
    if (is) for (const socket of sockets) socket.destroy()
  }
  t.after(() => {
    shut(true)
    server.close()
  })
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, shut }
}

async function open(t: TestContext, url: string, registrations = createMemoryRegistrations()) {
  const context = {
    clock: createSystemClock(),
    log: { info() {}, warn() {} },
    policy: { part: { shared: { categories: ['security'], areListed: true } } },
    errorsOf: () => () => {},
  }
  const { redis, keeper } = await openKeptRedis(
    readStateAddress(url, () => ''),
    context as unknown as RuntimeContext,
    registrations,
  )
  t.after(async () => {
    await keeper!.stop()
    redis.close()
  })
  return keeper!
}

async function until(what: string, isSo: () => boolean): Promise<void> {
  for (const endsAt = performance.now() + 15_000; !isSo(); await sleep(20))
    assert.ok(performance.now() < endsAt, what)
}

/** Waits until this process keeps the limits, and sees that it does so for a while. */
async function staysKept({ keeper }: Pick<LimitsKeeper, 'keeper'>): Promise<void> {
  await until('it keeps the limits', () => keeper() === 'this process')
  for (const sinceMs = performance.now(); performance.now() - sinceMs < 6_000; await sleep(50))
    assert.equal(keeper(), 'this process', `after ${performance.now() - sinceMs} ms`)
}

// They mostly wait, each on engines or names of its own.
describe('the limits of a gateway', { ...needs('redis'), concurrency: 3 }, () => {
  test('are kept as long as its Redis has no memory left for what it is told', async (t) => {
    const service = await startRedis()
    const admin = new Redis(service.url)
    t.after(async () => {
      admin.disconnect()
      await service.stop()
    })
    const keeper = await open(t, service.url)
    await until('it is served', () => !keeper.isAway() && keeper.keeper() === undefined)
    // Less than an empty server takes: one that is filled until it refuses a large value takes small ones.
    await admin.config('SET', 'maxmemory', '500kb')
    await staysKept(keeper)
    await admin.config('SET', 'maxmemory', '0')
    await until('Redis has the limits back', () => !keeper.isAway() && keeper.keeper() === undefined)
  })

  test('are kept as long as its cluster is down for want of one master', async (t) => {
    const cluster = await startRedisCluster()
    t.after(() => cluster.stop())
    const hosts = cluster.env.SLUICE_TEST_REDIS_CLUSTER!.replaceAll('redis://', '')
    const keeper = await open(t, `redis-cluster://${hosts}`)
    await until('it is served', () => !keeper.isAway() && keeper.keeper() === undefined)
    process.kill(cluster.pid, 'SIGSTOP')
    try {
      await staysKept(keeper)
    } finally {
      process.kill(cluster.pid, 'SIGCONT')
    }
    await until('Redis has the limits back', () => !keeper.isAway() && keeper.keeper() === undefined)
  })

  test('count in its Redis again where a connection takes longer to greet than a question may', async (t) => {
    const { SLUICE_TEST_REDIS = '' } = process.env
    const slow = await startSlowGreeter(t, new URL(SLUICE_TEST_REDIS), 100)
    const { register, keeping } = createMemoryRegistrations()
    // Another gateway has its server, so nobody keeps the limits.
    const standIn = async () => ({ number: undefined, keeper: undefined, isReachable: true })
    const keeper = await open(t, `redis://${slow.host}/1`, { register, keeping: { ...keeping, standIn } })
    await sleep(1_000)
    slow.shut(true)
    await until('it has pledged', () => keeper.isAway())
    slow.shut(false)
    await until('it is served again', () => !keeper.isAway())
  })
})
