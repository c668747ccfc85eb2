/** The tests run what the suite of rolling-rate-limiter checks, over the stores that it is run over. */
import process from 'node:process'
import { after, describe } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { needs } from '../../../../scripts/services/needs.ts'
import { memoryStore, redisStore } from '../../src/index.ts'
import type { RedisClient } from '../../src/stores/redis-client.ts'
import { exercise, tally } from './peer.ts'
import { rollingRateLimiter as suite } from './rolling-rate-limiter.ts'

const url = process.env.SLUICE_TEST_REDIS ?? ''
/** Redis drops keys by its own clock, whatever the case's clock says: by then every case is over. */
const retentionMs = 3_600_000
const startMs = Date.UTC(2026, 10, 21, 12)
/** The suite shares its cores with others; it asks whether answers are right, not how soon they come. */
const deadlineMs = 20_000
let worlds = 0

const perStore = suite.cases.filter(({ cases = 1 }) => cases > 1)

const open = (client?: RedisClient) => () => {
  worlds += 1
  const clock = { now: startMs }
  const now = () => clock.now
  const prefix = `${process.pid}:peers${worlds}:`
  return {
    clock,
    store: client ? redisStore(client, { now, deadlineMs, retentionMs, prefix }) : memoryStore({ now }),
  }
}

tally(suite)
describe('rolling-rate-limiter in memory', () => exercise(suite.cases, open()))

// Each client twice, as there: with a class of its own, and found out.
for (const round of ['by name', 'found out']) {
  describe(`rolling-rate-limiter over node-redis, ${round}`, needs('redis'), () => {
    const client = createClient({ url })
    after(() => client.destroy())
    exercise(perStore, async () => {
      if (!client.isOpen) await client.connect()
      return open(client)()
    })
  })

  describe(`rolling-rate-limiter over ioredis, ${round}`, needs('redis'), () => {
    const client = new Redis(url, { lazyConnect: true })
    after(() => client.disconnect())
    exercise(perStore, open(client))
  })
}
