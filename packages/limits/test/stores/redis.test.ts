/**
 * The Redis store on a real Redis: the suite of every store, over both clients, and what only Redis can show.
 */

import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, it } from 'node:test'
import { exerciseStore, type StoreWorld } from '@sluice/limits-conformance'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { needs } from '../../../../scripts/services/needs.ts'
import { createLimits, type Limits, limit, redisStore } from '../../src/index.ts'

const url = process.env.SLUICE_TEST_REDIS ?? ''
/** The suite shares two cores with others; what it asks is whether answers are right, not how soon they come. */
const deadlineMs = 20_000
let stores = 0

describe('over ioredis', needs('redis'), () => {
  const client = new Redis(url, { lazyConnect: true, enableAutoPipelining: true })
  after(() => client.disconnect())
  const open = (world: StoreWorld) => {
    stores += 1
    return { store: redisStore(client, { ...world, deadlineMs, prefix: `${process.pid}:${stores}:` }) }
  }
  exerciseStore(open, {
    name: 'Redis over ioredis',
    operations: Number(process.env.SLUICE_OPERATIONS ?? 5_000),
  })
})

describe('as a hash of segments', needs('redis'), () => {
  const client = new Redis(url, { lazyConnect: true, enableAutoPipelining: true })
  after(() => client.disconnect())
  const open = (packedMaxBytes: number) => (world: StoreWorld) => {
    stores += 1
    const prefix = `${process.pid}:h${stores}:`
    return { store: redisStore(client, { ...world, deadlineMs, prefix, packedMaxBytes }) }
  }
  // Always one, with segments of a single instant; and there and back again, with segments of a few.
  exerciseStore(open(64), { name: 'a long subject', operations: 2_000 })
  exerciseStore(open(400), { name: 'a subject that grows and shrinks', operations: 2_000 })
})

describe('over node-redis', needs('redis'), () => {
  const client = createClient({ url })
  after(() => client.destroy())
  const open = async (world: StoreWorld) => {
    if (!client.isOpen) await client.connect()
    stores += 1
    return { store: redisStore(client, { ...world, deadlineMs, prefix: `${process.pid}:n${stores}:` }) }
  }
  exerciseStore(open, { name: 'Redis over node-redis', operations: 1_000 })
})

describe('the state of a subject in Redis', needs('redis'), () => {
  const client = new Redis(url, { lazyConnect: true })
  after(() => client.disconnect())
  const minute = 60_000

  /** Answers the rest of the key's life, ms, once `use` has asked it. */
  async function lifeMs(use: (limits: Limits) => Promise<unknown>, retentionMs?: number): Promise<number> {
    stores += 1
    const prefix = `${process.pid}:ttl${stores}:`
    const options = retentionMs === undefined ? {} : { retentionMs }
    await use(createLimits({ store: redisStore(client, { deadlineMs, prefix, ...options }) }))
    return client.pttl(`${prefix}{ada}`)
  }

  it('goes within two windows of its last call, in whatever form it is', async () => {
    const rules = [limit('l', '100/min')]
    const uses: ((limits: Limits) => Promise<unknown>)[] = [
      (limits) => limits.take('ada', rules),
      (limits) => limits.take('ada', rules, { id: 'n' }),
      (limits) => limits.force('ada', 'n', rules),
      (limits) => limits.reserve('ada', rules, { id: 'n', firm: true }),
      async (limits) => {
        await limits.reserve('ada', rules, { id: 'n' })
        await limits.fire('ada', 'n', rules)
      },
      async (limits) => {
        await limits.take('ada', [limit('other', '3/s')], { id: 'm' })
        await limits.take('ada', rules, { id: 'n' })
      },
      async (limits) => {
        for (const id of Array.from({ length: 300 }, (_, index) => `018f4e9c-7a2b-7c3d-${index}`))
          await limits.force('ada', id, rules)
      },
    ]
    for (const [index, use] of uses.entries()) {
      const life = await lifeMs(use)
      assert.ok(life > minute - deadlineMs && life <= 2 * minute, `use ${index} lives ${life} ms`)
    }
  })

  it('stays as long as the retention says, or the longest window it was asked with', async () => {
    const day = 86_400_000
    assert.ok((await lifeMs((limits) => limits.take('ada', [limit('l', '100/min')]), 3 * day)) > 2.9 * day)
    const month = async (limits: Limits) => {
      await limits.take('ada', [limit('l', '9/month', { stream: 's' })])
      await limits.take('ada', [limit('m', '9/s', { stream: 's' })])
    }
    assert.ok((await lifeMs(month)) > 29 * day)
  })
})
