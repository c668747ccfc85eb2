/** The Redis store on a newer server than Debian's Redis: the suite again, as a string and as a hash of segments. */
import process from 'node:process'
import { after, describe } from 'node:test'
import { exerciseStore } from '@sluice/limits-conformance'
import { Redis } from 'ioredis'
import { needs } from '../../../../scripts/services/needs.ts'
import { redisStore } from '../../src/index.ts'

let stores = 0

describe('on Valkey', needs('valkey'), () => {
  const client = new Redis(process.env.SLUICE_TEST_VALKEY ?? '', {
    lazyConnect: true,
    enableAutoPipelining: true,
  })
  after(() => client.disconnect())
  const open = (options: { readonly packedMaxBytes?: number }) => (world: { now: () => number }) => {
    stores += 1
    const prefix = `${process.pid}:${stores}:`
    return { store: redisStore(client, { ...world, ...options, prefix, deadlineMs: 20_000 }) }
  }
  exerciseStore(open({}), { name: 'Valkey', operations: 1_000 })
  exerciseStore(open({ packedMaxBytes: 400 }), { name: 'Valkey with long subjects', operations: 1_000 })
})
