/** Token buckets in Redis: the same random questions as in memory, over both clients, and what only Redis can show. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, it } from 'node:test'
import { seededRandom, seedOfRun } from '@sluice/limits-conformance'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { needs } from '../../../../scripts/services/needs.ts'
import {
  LimitsError,
  memoryBuckets,
  type RedisBucketsOptions,
  type RedisClient,
  redisBuckets,
  tokenBucket,
} from '../../src/index.ts'

const url = process.env.SLUICE_TEST_REDIS ?? ''
const deadlineMs = 20_000
let stores = 0

async function compare(client: RedisClient, operations: number): Promise<void> {
  stores += 1
  const random = seededRandom(seedOfRun())
  const world = { now: Date.UTC(2026, 10, 21, 12) }
  const now = () => world.now
  const redis = redisBuckets(client, { now, deadlineMs, prefix: `${process.pid}:buckets:${stores}:` })
  const memory = memoryBuckets({ now })
  for (let count = 0; count < operations; count += 1) {
    if (random.once(15)) world.now -= random.between(1, 5_000)
    else world.now += random.pick([0, 0, 1, 7, 50, 900])
    const options = {
      capacity: random.pick([0, 5, 5, 5, 1_000_000]),
      refill: random.pick(['5/s', '5/s', '7/300ms', '1000000/31d', '3/day']),
    }
    const [key, cost] = [random.pick(['a', 'b']), random.pick([1, 1, 2, 6, 300_000])]
    const asks = random.once(6)
    const both = [redis, memory].map((store) => {
      const bucket = tokenBucket({ ...options, store })
      return asks ? bucket.check(key, cost) : bucket.take(key, cost)
    })
    const [is, should] = await Promise.all(both)
    assert.deepEqual(is, should, `operation ${count}: ${key} ${cost} ${JSON.stringify(options)}`)
  }
}

describe('token buckets in Redis', needs('redis'), () => {
  const client = new Redis(url, { lazyConnect: true, enableAutoPipelining: true })
  const other = createClient({ url })
  after(() => {
    client.disconnect()
    if (other.isOpen) other.destroy()
  })

  it('answer the same over ioredis as in memory', async (t) => {
    t.diagnostic(`SLUICE_SEED=${seedOfRun()}`)
    await compare(client, Number(process.env.SLUICE_OPERATIONS ?? 2_000))
  })

  it('answer the same over node-redis as in memory', async () => {
    await other.connect()
    await compare(other, 500)
  })

  it('share a bucket among all callers by the time of the server, and leave nothing behind', async () => {
    const prefix = `${process.pid}:shared:`
    const bucket = tokenBucket({
      capacity: 20,
      refill: '20/31d',
      store: redisBuckets(client, { prefix, deadlineMs }),
    })
    const decisions = await Promise.all(Array.from({ length: 50 }, () => bucket.take('ada')))
    assert.equal(decisions.filter(({ allowed }) => allowed).length, 20)
    const ttl = await client.pttl(`${prefix}{ada}`)
    assert.ok(ttl > 0 && ttl <= 31 * 86_400_000, `${ttl}`)
    await client.script('FLUSH')
    assert.equal((await bucket.take('ada')).allowed, false)
    await bucket.reset('ada')
    assert.equal(await client.exists(`${prefix}{ada}`), 0)
  })

  it('refuse invalid arguments, and end by their deadline', async () => {
    const refused = (error: unknown) => error instanceof LimitsError && error.code === 'INVALID_ARGUMENT'
    for (const options of [{ prefix: 1 }, { deadlineMs: 0 }, { now: 1 }])
      assert.throws(() => redisBuckets(client, options as RedisBucketsOptions), refused)
    assert.throws(() => redisBuckets({} as RedisClient), refused)
    const stuck = new Redis(url, { lazyConnect: true })
    await stuck.connect()
    const waiting = stuck.blpop(`${process.pid}:nobody`, 2)
    const bucket = tokenBucket({
      capacity: 1,
      refill: '1/s',
      store: redisBuckets(stuck, { deadlineMs: 30 }),
    })
    await assert.rejects(
      bucket.take('ada'),
      (error) => error instanceof LimitsError && error.code === 'STORE_UNAVAILABLE',
    )
    stuck.disconnect()
    await waiting.catch(() => {})
  })
})
