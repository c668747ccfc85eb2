/** A subject, key, server or client that is not as it should be gives an error of its own, never a pass. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, it } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import {
  createLimits,
  createSlotLeases,
  LimitsError,
  type LimitsErrorCode,
  limit,
  redisBuckets,
  redisSlots,
  redisStore,
  tokenBucket,
} from '../../src/index.ts'

const url = process.env.SLUICE_TEST_REDIS ?? ''
const nodes = (process.env.SLUICE_TEST_REDIS_CLUSTER ?? '').split(',').filter(Boolean)
const rules = [limit('two', '2/min')]
const deadlineMs = 20_000
/** Subjects that leave the braces of a key empty, and others that look like their keys. */
const braced = ['}', '}x', '}}', '}{', '}{a}b', '{}', '{}x', ')', ')x}.', '}x.', '{x', 'a}b', '))']

const coded = (code: LimitsErrorCode) => (error: unknown) => {
  assert.ok(error instanceof LimitsError, String(error))
  assert.equal(error.code, code, error.message)
  return true
}

describe('subjects with braces', needs('redis-cluster'), () => {
  it('count on a cluster as everywhere, over both clients, apart from one another', async (t) => {
    const at = nodes.map((node) => ({ host: new URL(node).hostname, port: Number(new URL(node).port) }))
    const ioredis = new Cluster(at)
    t.after(() => ioredis.disconnect())
    const nodeRedis = createCluster({ rootNodes: nodes.map((node) => ({ url: node })) })
    await nodeRedis.connect()
    t.after(() => nodeRedis.destroy())
    const prefix = `${process.pid}:braces:`
    const [first, second] = [ioredis, nodeRedis].map((client) =>
      createLimits({ store: redisStore(client, { prefix, deadlineMs, onUnavailable: 'admit' }) }),
    )
    for (const subject of braced) {
      const answers = [
        await first!.take(subject, rules),
        await second!.take(subject, rules),
        await first!.take(subject, rules),
      ]
      assert.deepEqual(
        answers.map(({ held }) => held),
        [true, true, false],
        subject,
      )
    }
    const bucket = tokenBucket({
      capacity: 1,
      refill: '1/min',
      store: redisBuckets(ioredis, { prefix: `${prefix}b:`, deadlineMs }),
    })
    for (const key of braced)
      assert.deepEqual(
        [(await bucket.take(key)).allowed, (await bucket.take(key)).allowed],
        [true, false],
        key,
      )
  })
})

describe('the fallback when Redis does not answer', needs('redis'), () => {
  const client = new Redis(url, { lazyConnect: true })
  after(() => client.disconnect())
  const prefix = `${process.pid}:errors:`
  // A fallback must not hide that the key is somebody else's.
  const limits = createLimits({ store: redisStore(client, { prefix, deadlineMs, onUnavailable: 'admit' }) })

  it('throws STORE_STATE_INVALID for a key that holds something else, in every call', async () => {
    const key = `${prefix}{ada}`
    const foreign: [string, () => Promise<unknown>][] = [
      ['a text', () => client.set(key, 'hello')],
      ['a text that begins as ours', () => client.set(key, 'Alice and Bob')],
      ['an empty text', () => client.set(key, '')],
      ['bytes', () => client.set(key, Buffer.from([66, 0, 0, 9, 0, 1, 76, 1, 2, 3]))],
      ['a list', () => client.rpush(key, 'x')],
      ['a set', () => client.sadd(key, 'x')],
      ['a sorted set', () => client.zadd(key, 1, 'x')],
      ['a hash', () => client.hset(key, 'field', 'x')],
    ]
    for (const [what, put] of foreign) {
      await client.del(key)
      await put()
      for (const call of [
        () => limits.take('ada', rules),
        () => limits.take('ada', rules, { id: 'n' }),
        () => limits.reserve('ada', rules, { id: 'n' }),
        () => limits.check('ada', rules),
        () => limits.cancel('ada', 'n'),
      ])
        await assert.rejects(call(), coded('STORE_STATE_INVALID'), what)
      await limits.reset('ada')
      assert.equal((await limits.take('ada', rules)).allowed, true, what)
    }
  })

  it('says that a value of ours is broken off', async () => {
    await limits.take('eve', rules)
    await limits.take('eve', rules, { id: 'n' })
    const key = `${prefix}{eve}`
    const value = (await client.getBuffer(key))!
    for (const length of [1, 5, 20, 30, 40]) {
      await client.set(key, value.subarray(0, length))
      await assert.rejects(limits.take('eve', rules), coded('STORE_STATE_INVALID'), `${length} bytes`)
    }
  })

  it('says the same of buckets and slots', async () => {
    await client.set(`${prefix}b:{ada}`, 'hello')
    const bucket = tokenBucket({
      capacity: 1,
      refill: '1/s',
      store: redisBuckets(client, { prefix: `${prefix}b:`, deadlineMs }),
    })
    await assert.rejects(bucket.take('ada'), coded('STORE_STATE_INVALID'))
    const leases = createSlotLeases({ store: redisSlots(client, { prefix: `${prefix}s:`, deadlineMs }) })
    for (const put of [
      () => client.set(`${prefix}s:{20:0}`, 'x'),
      () => client.hset(`${prefix}s:{20:0}`, 'x', 'y'),
    ]) {
      await client.del(`${prefix}s:{20:0}`)
      await put()
      await assert.rejects(
        leases.lease([{ account: 'a', windows: '5/s', want: 1 }]),
        coded('STORE_STATE_INVALID'),
      )
    }
  })

  it('says that the server is a replica, and falls back there', async (t) => {
    const own = await startRedis()
    const replica = new Redis(own.url)
    t.after(async () => {
      replica.disconnect()
      await own.stop()
    })
    await replica.replicaof('127.0.0.1', 1)
    const strict = createLimits({ store: redisStore(replica, { deadlineMs }) })
    await assert.rejects(strict.take('ada', rules), coded('STORE_READ_ONLY'))
    await assert.rejects(strict.reserve('ada', rules, { id: 'n' }), coded('STORE_READ_ONLY'))
    await assert.rejects(strict.block('ada', 5), coded('STORE_READ_ONLY'))
    const refusing = createLimits({ store: redisStore(replica, { deadlineMs, onUnavailable: 'refuse' }) })
    const refused = await refusing.take('ada', rules)
    assert.deepEqual([refused.allowed, refused.rules], [false, []])
  })

  it('says that the client was never connected, or is closed', async () => {
    const unopened = createClient({ url })
    const closed = new Redis(url, { lazyConnect: true })
    await closed.connect()
    closed.disconnect()
    const impatient = new Redis({
      host: '127.0.0.1',
      port: 1,
      enableOfflineQueue: false,
      retryStrategy: () => 50,
    })
    impatient.on('error', () => {})
    const waiting = new Redis({
      host: '127.0.0.1',
      port: 1,
      retryStrategy: () => 50,
      maxRetriesPerRequest: null,
    })
    waiting.on('error', () => {})
    for (const unready of [unopened, closed, impatient, waiting]) {
      const store = redisStore(unready, { deadlineMs: 100 })
      await assert.rejects(createLimits({ store }).take('ada', rules), coded('STORE_NOT_READY'))
      const refusing = redisStore(unready, { deadlineMs: 100, onUnavailable: 'refuse' })
      assert.equal((await createLimits({ store: refusing }).take('ada', rules)).allowed, false)
    }
    for (const client of [impatient, waiting]) client.disconnect()
  })
})
