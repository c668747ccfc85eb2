/** The tests run what the suites of rate-limiter-flexible check in memory, and over Redis, which must answer the same. */
import process from 'node:process'
import { after, describe } from 'node:test'
import { Redis } from 'ioredis'
import { needs } from '../../../../scripts/services/needs.ts'
import { memoryStore, redisStore } from '../../src/index.ts'
import { exercise, tally } from './peer.ts'
import { rateLimiterFlexible as suite } from './rate-limiter-flexible.ts'

/** Redis drops keys by its own clock, whatever the case's clock says: by then every case is over. */
const retentionMs = 3_600_000
const startMs = Date.UTC(2026, 10, 21, 12)

tally(suite)

describe('rate-limiter-flexible in memory', () => {
  exercise(suite.cases, () => {
    const clock = { now: startMs }
    return { clock, store: memoryStore({ now: () => clock.now }) }
  })
})

describe('rate-limiter-flexible over Redis', needs('redis'), () => {
  const client = new Redis(process.env.SLUICE_TEST_REDIS ?? '', { lazyConnect: true })
  after(() => client.disconnect())
  exercise(suite.cases, (row) => {
    const clock = { now: startMs }
    const prefix = `${process.pid}:flexible${suite.cases.indexOf(row)}:`
    return {
      clock,
      store: redisStore(client, { now: () => clock.now, deadlineMs: 20_000, retentionMs, prefix }),
    }
  })
})
