/**
 * The Redis store on a real Redis: the suite of every store, over both clients, and what only Redis can show.
 */

import process from 'node:process'
import { after, describe } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { needs } from '../../../../scripts/services/needs.ts'
import { exerciseStore } from '../../src/conformance/index.ts'
import { redisStore } from '../../src/index.ts'

const url = process.env.SLUICE_TEST_REDIS ?? ''
/** The suite shares two cores with others; what it asks is whether answers are right, not how soon they come. */
const deadlineMs = 20_000
let stores = 0

describe('over ioredis', needs('redis'), () => {
  const client = new Redis(url, { lazyConnect: true, enableAutoPipelining: true })
  after(() => client.disconnect())
  const open = (world: { now: () => number }) => {
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
  const open = (packedMaxBytes: number) => (world: { now: () => number }) => {
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
  const open = async (world: { now: () => number }) => {
    if (!client.isOpen) await client.connect()
    stores += 1
    return { store: redisStore(client, { ...world, deadlineMs, prefix: `${process.pid}:n${stores}:` }) }
  }
  exerciseStore(open, { name: 'Redis over node-redis', operations: 1_000 })
})
