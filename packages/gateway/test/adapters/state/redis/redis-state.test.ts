/** The state on a Redis Cluster: its map of slots, and nodes that leave it or hang. */
import assert from 'node:assert/strict'
import { networkInterfaces } from 'node:os'
import process from 'node:process'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../../../scripts/services/redis.ts'
import { startRedisCluster } from '../../../../../../scripts/services/redis-cluster.ts'
import type { Service } from '../../../../../../scripts/services/service.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { slotOf } from '../../../../src/adapters/state/redis/key-slot.ts'
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import { Redirection } from '../../../../src/adapters/state/redis/redis-answers.ts'
import { lookAtRedis } from '../../../../src/adapters/state/redis/redis-look.ts'
import { createRedisState, type RedisStateOptions } from '../../../../src/adapters/state/redis/redis-state.ts'
import { onceScript } from '../../../../src/adapters/state/redis/scripts.ts'
import { readStateAddress } from '../../../../src/config/state-address.ts'
import { startProxy } from '../../../store/postgres/proxy.ts'
import { startCutCluster } from './cut-cluster.ts'
import { newPrefix } from './open.ts'

/** Containers often have none. */
const hasIpv6 = Object.values(networkInterfaces())
  .flat()
  .some((each) => each?.address === '::1')
const urls = (process.env.SLUICE_TEST_REDIS_CLUSTER ?? '').split(',')

function open(t: TestContext, hosts: string, options: Partial<RedisStateOptions> = {}) {
  const redis = createRedisState({
    url: `redis-cluster://${hosts}`,
    registrations: createMemoryRegistrations(),
    clock: createSystemClock(),
    deadlineMs: 500,
    prefix: newPrefix(),
    ...options,
  })
  t.after(() => redis.close())
  const keep = (subject: string) => redis.ask(onceScript, { subject, name: '' }, ['keep', 'm', '', '1'])
  return { redis, keep }
}

describe('the state on a Redis Cluster', needs('redis-cluster'), () => {
  it('reads the map of slots over another connection where the answer of the only node it knows is lost', async (t) => {
    const users = urls.map((url) => new Redis(url))
    t.after(() => {
      for (const user of users) user.disconnect()
    })
    for (const user of users) await user.call('ACL', 'SETUSER', 'cut', 'on', '>cut', '~*', '&*', '+@all')
    for (const [lost, login] of [
      ['CLUSTER', ''],
      ['AUTH', 'cut:cut@'],
    ] as const) {
      const proxy = await startProxy(urls[0]!)
      t.after(proxy.close)
      proxy.forgetAt(lost)
      const { keep } = open(t, login + new URL(proxy.url).host)
      await assert.rejects(keep('a'), { code: 'STATE_UNAVAILABLE' })
      await until(() => keep('a').then(() => true))
    }
  })

  for (const [named, args] of Object.entries({
    'by IPv6 addresses': ['--cluster-announce-ip', '::1'],
    'by none, as one that has met no other': [],
  }))
    it(`asks nodes that the cluster names ${named}`, { skip: !hasIpv6 }, async (t) => {
      const bound = ['--bind', '127.0.0.1', '::1', '--cluster-enabled', 'yes', ...args]
      const service = await startRedis({ args: bound })
      t.after(() => service.stop())
      const node = `[::1]:${new URL(service.url).port}`
      const admin = new Redis(service.url)
      await admin.cluster('ADDSLOTSRANGE', 0, 16_383)
      await until(async () => String(await admin.cluster('INFO')).includes('cluster_state:ok'))
      admin.disconnect()
      const { keep } = open(t, node)
      await until(() => keep('a').then(() => true))
      const address = readStateAddress(`redis-cluster://${node}`, () => '')
      const found = await lookAtRedis({ ...address, usesChannels: true, now: Date.now })
      assert.ok(
        found.startsWith('Redis Cluster of 1 masters.') && found.includes(` at ${node}: master`),
        found,
      )
    })

  it('takes no map of slots from a node that has left the cluster', async (t) => {
    const left = await startRedis({ args: ['--cluster-enabled', 'yes'] })
    const proxy = await startProxy(urls[0]!)
    t.after(async () => {
      proxy.close()
      await left.stop()
    })
    proxy.delayAnswers(50)
    const { redis, keep } = open(t, `${new URL(left.url).host},${new URL(proxy.url).host}`)
    await until(() => keep('a').then(() => true))
    // Nor does it wait for such a node, which others have met before it left.
    for (const number of [1, 2]) redis.expect(new Map([[new URL(left.url).host, number]]))
    await until(() => keep('a').then(() => true))
  })

  it('goes on at once where the record gives a number to a node that is a replica by now', async (t) => {
    const cluster = await startRedisCluster({ replicas: 1 })
    const admin = new Redis(cluster.url)
    t.after(async () => {
      admin.disconnect()
      await cluster.stop()
    })
    const nodes = async () =>
      ((await admin.cluster('NODES')) as string).split('\n').map((line) => line.split(/[ @]/))
    const masters: string[] = []
    let replica = ''
    await until(async () => {
      for (const [, node = '', , flags = ''] of await nodes())
        if (flags.includes('slave')) replica = node
        else if (flags.includes('master') && !masters.includes(node)) masters.push(node)
      return masters.length === 3 && replica !== ''
    })
    const { redis, keep } = open(t, masters.join())
    await until(() => keep('a').then(() => true))
    redis.expect(new Map([[replica, 1]]))
    // One that keeps the limits while Redis is away takes its number for every node that was a master once.
    redis.expect(new Map([[replica, 2]]))
    const sinceMs = performance.now()
    await until(() => keep('a').then(() => true))
    assert.ok(performance.now() - sinceMs < 5_000)
  })

  it('asks no node while another process has met a master that is away, before most masters say that it is none', async (t) => {
    const cluster = await startRedisCluster()
    const hosts = hostsOf(cluster)
    const admins = hosts.map((host) => new Redis(`redis://${host}`))
    t.after(async () => {
      for (const admin of admins) admin.disconnect()
      await cluster.stop()
    })
    const { redis, keep } = open(t, hosts[0]!)
    await until(() => keep('a').then(() => true))
    const [master] = hosts
    redis.expect(new Map([[master!, 1]]))
    redis.expect(new Map([[master!, 2]]))
    await until(() => keep('a').then(() => true))
    // One master alone may be one that was deposed, and does not know it.
    for (const admin of admins.slice(1)) await admin.call('CLIENT', 'PAUSE', '5000')
    redis.expect(new Map([['127.0.0.1:1', 3]]))
    await assert.rejects(keep('a'), {
      code: 'STATE_UNAVAILABLE',
      message: /the map of slots does not name 127\.0\.0\.1:1/,
    })
    await until(() => keep('a').then(() => true))
  })

  it('takes no map of slots from a node that is cut off from most of its cluster', async (t) => {
    const { urls, cut } = await startCutCluster(t)
    const admins = urls.map((url) => new Redis(url))
    t.after(() => {
      for (const admin of admins) admin.disconnect()
    })
    const prefix = newPrefix()
    const { keep } = open(t, new URL(urls[0]!).host, { prefix })
    // The first node has it, and is the only one that is asked.
    const subject = Array.from({ length: 100 }, (_, n) => `s${n}`).find(
      (each) => slotOf(`${prefix}{${each}}`) < 5_000,
    )!
    await until(() => keep(subject).then(() => true))
    cut(true)
    const slot = slotOf(`${prefix}{${subject}}`)
    const [lonely, successor] = await Promise.all(
      admins.map(async (admin) => String(await admin.cluster('MYID'))),
    )
    await until(async () => String(await admins[0]!.cluster('INFO')).includes('cluster_state:fail'))
    // As a replica of the node does that takes its place.
    await admins[1]!.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', lonely!)
    for (const admin of admins.slice(1)) await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', successor!)
    await until(() => keep(subject).then(() => true))
  })

  it('answers what is asked in the moment in which a slot goes to another node', async (t) => {
    const cluster = await startRedisCluster()
    const hosts = hostsOf(cluster)
    const admins = hosts.map((host) => new Redis(`redis://${host}`))
    t.after(async () => {
      for (const admin of admins) admin.disconnect()
      await cluster.stop()
    })
    const prefix = newPrefix()
    const { redis, keep } = open(t, hosts[0]!, { prefix, deadlineMs: 1_500 })
    await until(() => keep('a').then(() => true))
    const slot = slotOf(`${prefix}{a}`)
    const refusals = await Promise.all(
      admins.map((admin) => admin.exists(`${prefix}{a}`).catch((error: Error) => error.message)),
    )
    const from = refusals.findIndex((refusal) => typeof refusal === 'number')
    const to = (from + 1) % 3
    const [source, target] = [admins[from]!, admins[to]!]
    const [sourceId, targetId] = await Promise.all([source, target].map((each) => each.cluster('MYID')))
    // One of two keys is there, and the other two subjects have none.
    await source.set(`${prefix}{a}:about`, '')
    await target.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(sourceId))
    await source.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(targetId))
    const ask = (...others: readonly string[]) =>
      redis.ask(onceScript, { subject: 'a', name: '', others }, ['keep', 'm', '', '1'])
    // A busy machine may give no answer in time.
    for (const [others, refusal] of [
      [[], /ASK/],
      [[':about'], /TRYAGAIN/],
    ] as const)
      await until(() =>
        ask(...others).then(
          () => false,
          (error: Error) => refusal.test(error.message),
        ),
      )
    const answers = Promise.all([ask(), ask(':about')])
    await sleep(50)
    const { port, hostname } = new URL(`redis://${hosts[to]}`)
    await source.migrate(hostname, port, `${prefix}{a}:about`, 0, 1_000)
    for (const admin of [target, source])
      await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', String(targetId))
    assert.equal((await answers).length, 2)
  })
})

const hostsOf = ({ env }: Service): readonly string[] =>
  env.SLUICE_TEST_REDIS_CLUSTER!.split(',').map((url) => new URL(url).host)

it('reads where a redirection leads', () => {
  const nodeOf = (message: string) => new Redirection(message, '[::1]:7000').node
  assert.equal(nodeOf('MOVED 1 10.0.0.7:7001'), '10.0.0.7:7001')
  assert.equal(nodeOf('MOVED 1 fd00::7:7001'), '[fd00::7]:7001')
  assert.equal(nodeOf('ASK 1 node-7.internal:7001'), 'node-7.internal:7001')
  assert.equal(nodeOf('MOVED 1 :7001'), '[::1]:7001')
})

/** Waits for what becomes true within 10 s; an answer that is unavailable is none yet. */
async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const sinceMs = performance.now()
  let last: unknown
  while (
    !(await isTrue().catch((error: unknown) => {
      last = error
      return false
    }))
  ) {
    assert.ok(performance.now() - sinceMs < 10_000, `it has not become true: ${String(last)}`)
    await sleep(20)
  }
}
