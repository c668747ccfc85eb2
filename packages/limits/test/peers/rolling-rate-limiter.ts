/** This table holds the cases of rolling-rate-limiter. Its limiter counts refused attempts, so ours is told to. */
import assert from 'node:assert/strict'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import {
  createLimits,
  createRollingRateLimiter,
  type Decision,
  fromRollingRateLimiter,
  type RollingRateLimiterOptions,
  redisStore,
  type Store,
} from '../../src/index.ts'
import type { PeerCase, PeerSuite } from './peer.ts'

export interface RollingWorld {
  /** Epoch milliseconds, moved by the case. */
  readonly clock: { now: number }
  /** Empty for every case. */
  readonly store: Store
}

const plain: RollingRateLimiterOptions = { interval: 10_000, maxInInterval: 5, minDifference: 500 }

/** Their shape over ours: whether an attempt is refused, and why. */
function limiterOf({ clock, store }: RollingWorld, options: RollingRateLimiterOptions) {
  const startMs = clock.now
  const rules = fromRollingRateLimiter({ ...options, countRefused: true })
  const limits = createLimits({ store })
  const infoOf = ({ allowed, rules: rows, retryAfterMs }: Decision) => {
    const refuses = (isGap: boolean) =>
      rows.some(({ window, admits }) => !admits && (window === `1/${options.minDifference}ms`) === isGap)
    const remaining = Math.min(
      ...rows.filter(({ max }) => max === options.maxInInterval).map((row) => row.remaining),
    )
    return [!allowed, refuses(false), refuses(true), retryAfterMs, allowed ? remaining : 0]
  }
  return {
    at: (ms: number) => {
      clock.now = startMs + ms
    },
    limit: async (id: string) => !(await limits.take(id, rules)).allowed,
    wouldLimit: async (id: string) => !(await limits.check(id, rules)).allowed,
    info: async (id: string) => infoOf(await limits.take(id, rules)),
  }
}

const refused = (behaviour: string, change: object): PeerCase<RollingWorld> => ({
  file: 'index',
  behaviour,
  run: () => assert.throws(() => createRollingRateLimiter({ ...plain, ...change }), { name: 'LimitsError' }),
})

const accepted = (behaviour: string, change: object): PeerCase<RollingWorld> => ({
  file: 'index',
  behaviour,
  run: async () => assert.equal(await createRollingRateLimiter({ ...plain, ...change })('ada'), 0),
})

const stores = 5
const overStores = (row: Omit<PeerCase<RollingWorld>, 'file' | 'cases'>): PeerCase<RollingWorld> => ({
  file: 'index',
  cases: stores,
  ...row,
})

const waitDiffers =
  'the wait told there is the one after this attempt, counted even by a mere question; `retryAfterMs` is how long this attempt has to wait, 0 where it is admitted'

export const rollingRateLimiter: PeerSuite<RollingWorld> = {
  peer: 'rolling-rate-limiter',
  version: '0.4.2',
  cases: [
    refused('an interval is needed', { interval: undefined }),
    refused('a count is needed', { maxInInterval: undefined }),
    refused('an interval of 0 is refused', { interval: 0 }),
    refused('a negative interval is refused', { interval: -1 }),
    refused('a count of 0 is refused', { maxInInterval: 0 }),
    refused('a negative count is refused', { maxInInterval: -1 }),
    refused('a negative least distance is refused', { minDifference: -1 }),
    accepted('the least distance may be left out', { minDifference: undefined }),
    accepted('a least distance of 0 is none', { minDifference: 0 }),
    accepted('all options together are taken', {}),
    {
      file: 'index',
      behaviour: 'knows a client of node-redis',
      by: '`redisStore(client)`',
      run: () => assert.ok(redisStore(createClient())),
    },
    {
      file: 'index',
      behaviour: 'knows a client of ioredis',
      by: '`redisStore(client)`',
      run: () => assert.ok(redisStore(new Redis({ lazyConnect: true }))),
    },
    {
      file: 'index',
      behaviour: 'refuses a client that is neither',
      by: '`redisStore(client)`',
      run: () =>
        assert.throws(() => redisStore({ connect: () => {} } as never), { code: 'INVALID_ARGUMENT' }),
    },
    overStores({
      behaviour: 'no more than the count in any interval, and a question counts nothing',
      async run(world) {
        const { at, limit, wouldLimit } = limiterOf(world, { interval: 10, maxInInterval: 2 })
        assert.equal(await limit('ada'), false)
        at(1)
        assert.deepEqual([await wouldLimit('ada'), await limit('ada')], [false, false])
        at(9)
        assert.equal(await wouldLimit('ada'), true)
        at(10)
        assert.deepEqual([await wouldLimit('ada'), await limit('ada')], [false, false])
        assert.equal(await wouldLimit('ada'), true)
      },
    }),
    overStores({
      behaviour: 'refused attempts count as attempts',
      by: '`countRefused: true`',
      async run(world) {
        const { at, limit } = limiterOf(world, { interval: 10, maxInInterval: 3 })
        for (let call = 0; call < 3; call += 1) assert.equal(await limit('ada'), false)
        at(9)
        assert.deepEqual([await limit('ada'), await limit('ada')], [true, true])
        at(10)
        assert.deepEqual([await limit('ada'), await limit('ada')], [false, true])
      },
    }),
    overStores({
      behaviour: 'attempts keep the least distance, refused ones included',
      by: '`countRefused: true`',
      async run(world) {
        const { at, limit } = limiterOf(world, { interval: 10, maxInInterval: 4, minDifference: 2 })
        assert.deepEqual([await limit('ada'), await limit('ada')], [false, true])
        at(1)
        assert.equal(await limit('ada'), true)
        at(3)
        assert.deepEqual([await limit('ada'), await limit('ada')], [false, true])
      },
    }),
    overStores({
      behaviour: 'every id is counted apart',
      by: '`countRefused: true`',
      async run(world) {
        const { at, limit } = limiterOf(world, { interval: 5, maxInInterval: 2 })
        const thrice = async (id: string) => [await limit(id), await limit(id), await limit(id)]
        assert.deepEqual(await thrice('ada'), [false, false, true])
        at(1)
        assert.deepEqual(await thrice('bob'), [false, false, true])
        at(5)
        assert.deepEqual([await limit('ada'), await limit('bob')], [false, true])
      },
    }),
    overStores({
      behaviour: 'tells why it refuses, how long to wait and how many are left',
      differs: waitDiffers,
      async run(world) {
        const { at, info } = limiterOf(world, { interval: 10, maxInInterval: 3 })
        assert.deepEqual(await info('ada'), [false, false, false, 0, 2])
        at(4)
        assert.deepEqual(await info('ada'), [false, false, false, 0, 1])
        at(5)
        assert.deepEqual(await info('ada'), [false, false, false, 0, 0])
        at(8)
        assert.deepEqual(await info('ada'), [true, true, false, 6, 0])
      },
    }),
    overStores({
      behaviour: 'tells the same with a least distance',
      differs: waitDiffers,
      async run(world) {
        const { at, info } = limiterOf(world, { interval: 10, maxInInterval: 3, minDifference: 2 })
        assert.deepEqual(await info('ada'), [false, false, false, 0, 2])
        at(4)
        assert.deepEqual(await info('ada'), [false, false, false, 0, 1])
        at(5)
        assert.deepEqual(await info('ada'), [true, false, true, 5, 0])
        at(8)
        assert.deepEqual(await info('ada'), [true, true, false, 6, 0])
      },
    }),
  ],
}
