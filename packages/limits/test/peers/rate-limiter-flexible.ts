/** This table holds the cases of rate-limiter-flexible for memory and unions. It counts refused points, so ours is told to. */
import assert from 'node:assert/strict'
import { createLimits, type Decision, type Limit, limit, type Store } from '../../src/index.ts'
import type { PeerCase, PeerSuite } from './peer.ts'

export interface FlexibleWorld {
  /** Epoch milliseconds, moved by the case. */
  readonly clock: { now: number }
  /** Empty for every case. */
  readonly store: Store
}

interface Points {
  readonly points: number
  /** Seconds, as there. */
  readonly duration: number
  readonly blockDuration?: number
}

const second = 1_000

/** Their shape over ours: points per duration, and a block of the key once it asks for more. */
function limiterOf({ store }: FlexibleWorld, { points, duration, blockDuration = 0 }: Points) {
  const limits = createLimits({ store })
  // A block takes the place of the refusal that it follows, which is over with it.
  const countRefused = blockDuration === 0
  const lasting = (seconds: number): readonly Limit[] => [
    limit('points', `${points}/${seconds}s`, { countRefused }),
  ]
  const get = async (key: string, seconds = duration) => {
    if (!(await limits.has(key))) return null
    const { used, remaining, resetAt } = (await limits.check(key, lasting(seconds))).rules[0]!
    return { used, remaining, resetAt }
  }
  let forced = 0
  return {
    limits,
    get,
    async consume(key: string, weight = 1, seconds = duration) {
      const decision = await limits.take(key, lasting(seconds), { weight })
      const { allowed, blockedUntil, retryAfterMs } = decision
      if (allowed || blockDuration === 0 || blockedUntil !== undefined) return { allowed, retryAfterMs }
      await limits.block(key, blockDuration * second)
      return { allowed, retryAfterMs: blockDuration * second }
    },
    penalty(key: string, weight = 1, seconds = duration): Promise<Decision> {
      forced += 1
      return limits.force(key, `penalty${forced}`, lasting(seconds), { weight })
    },
    async set(key: string, used: number) {
      await limits.forget(key)
      await limits.force(key, 'set', lasting(duration), { weight: used })
    },
    async delete(key: string) {
      const known = await limits.has(key)
      await limits.forget(key)
      return known
    },
  }
}

const memory = (row: Omit<PeerCase<FlexibleWorld>, 'file'>): PeerCase<FlexibleWorld> => ({
  file: 'RateLimiterMemory',
  ...row,
})

const union = (row: Omit<PeerCase<FlexibleWorld>, 'file'>): PeerCase<FlexibleWorld> => ({
  file: 'RateLimiterUnion',
  ...row,
})

const evenlyDiffers =
  'calls are spread by a least distance (`minGap`) that is always the same; there it is what is left of a fixed window by what is left of the points'
const foreverDiffers =
  'a window rolls and is at most 366 days long; what shall never come back is kept by the application, or `0/day`'

const pair = [limit('limit1', '1/s', { countRefused: true }), limit('limit2', '2/5s', { countRefused: true })]
const leftOf = ({ rules }: Decision) => rules.map(({ remaining }) => remaining)

export const rateLimiterFlexible: PeerSuite<FlexibleWorld> = {
  peer: 'rate-limiter-flexible',
  version: '11.1.0',
  cases: [
    memory({
      behaviour: 'one point consumed is one point used',
      async run(world) {
        const { consume, get } = limiterOf(world, { points: 2, duration: 5 })
        assert.equal((await consume('ada')).allowed, true)
        assert.equal((await get('ada'))?.used, 1)
      },
    }),
    memory({
      behaviour: 'more points than there are cannot be consumed, and the refusal tells a wait',
      async run(world) {
        const { allowed, retryAfterMs } = await limiterOf(world, { points: 1, duration: 5 }).consume('ada', 2)
        assert.equal(allowed, false)
        assert.ok(retryAfterMs > 0)
      },
    }),
    memory({
      behaviour: 'calls that are spread keep at least 20 ms between them',
      by: '`reserve` with `minGap`',
      async run({ clock, store }) {
        const limits = createLimits({ store })
        const rules = [limit('points', '100/s', { minGap: 20 })]
        const first = await limits.reserve('ada', rules, { id: 'a' })
        const second = await limits.reserve('ada', rules, { id: 'b' })
        assert.deepEqual([first.at, second.at], [clock.now, clock.now + 20])
      },
    }),
    memory({ behaviour: 'calls are spread over what is left of the duration', differs: evenlyDiffers }),
    memory({ behaviour: 'a spread call tells what is left after its delay', differs: evenlyDiffers }),
    memory({
      behaviour: 'a penalty uses a point without asking',
      by: '`force`',
      async run(world) {
        const { consume, penalty, get } = limiterOf(world, { points: 3, duration: 5 })
        await consume('ada')
        await penalty('ada')
        assert.equal((await get('ada'))?.used, 2)
      },
    }),
    memory({
      behaviour: 'a reward gives a point back',
      by: '`cancel` of the id it was taken under',
      async run({ store }) {
        const limits = createLimits({ store })
        const rules = [limit('points', '1/5s')]
        await limits.take('ada', rules, { id: 'a' })
        assert.equal(await limits.cancel('ada', 'a'), true)
        assert.equal((await limits.check('ada', rules)).rules[0]!.used, 0)
      },
    }),
    memory({
      behaviour: 'a prefix stands before the key',
      differs:
        'in memory a key is what the caller gave, and two limiters are two stores or two streams; `redisStore` has `prefix`',
    }),
    memory({
      behaviour: 'who consumes more than there is waits out the block',
      by: '`block` after a refusal',
      async run(world) {
        const { consume } = limiterOf(world, { points: 1, duration: 1, blockDuration: 2 })
        const { allowed, retryAfterMs } = await consume('ada', 2)
        assert.deepEqual([allowed, retryAfterMs > second], [false, true])
      },
    }),
    memory({
      behaviour: 'whoever is blocked is not blocked anew by trying',
      by: '`block` after a refusal',
      async run(world) {
        const { consume } = limiterOf(world, { points: 1, duration: 1, blockDuration: 2 })
        await consume('ada', 2)
        world.clock.now += 1_201
        const { allowed, retryAfterMs } = await consume('ada')
        assert.deepEqual([allowed, retryAfterMs], [false, 799])
      },
    }),
    memory({
      behaviour: 'a block is over when it said so, and counting begins anew',
      by: '`block` after a refusal',
      async run(world) {
        const { consume, get } = limiterOf(world, { points: 1, duration: 1, blockDuration: 2 })
        await consume('ada', 2)
        world.clock.now += 2_010
        assert.equal((await consume('ada')).allowed, true)
        assert.equal((await get('ada'))?.used, 1)
      },
    }),
    memory({
      behaviour: 'a key can be blocked by hand',
      by: '`block`',
      async run(world) {
        const { consume, limits } = limiterOf(world, { points: 1, duration: 1 })
        await limits.block('ada', 2 * second)
        assert.deepEqual(await consume('ada'), { allowed: false, retryAfterMs: 2 * second })
      },
    }),
    memory({
      behaviour: 'what is left can be asked without consuming',
      by: '`check`',
      async run(world) {
        const { consume, get } = limiterOf(world, { points: 2, duration: 5 })
        await consume('ada')
        assert.equal((await get('ada'))?.remaining, 1)
      },
    }),
    memory({
      behaviour: 'nothing is known of a key that nobody used',
      by: '`has`',
      run: async (world) =>
        assert.equal(await limiterOf(world, { points: 2, duration: 5 }).get('nobody'), null),
    }),
    memory({
      behaviour: 'to delete a key that was used says yes',
      by: '`has` and `forget`',
      async run(world) {
        const limiter = limiterOf(world, { points: 2, duration: 5 })
        await limiter.consume('ada')
        assert.equal(await limiter.delete('ada'), true)
        assert.equal(await limiter.get('ada'), null)
      },
    }),
    memory({
      behaviour: 'to delete a key that was not used says no',
      by: '`has` and `forget`',
      run: async (world) =>
        assert.equal(await limiterOf(world, { points: 2, duration: 5 }).delete('nobody'), false),
    }),
    memory({
      behaviour: 'one call may consume with a duration of its own',
      by: 'the rules of that call',
      async run(world) {
        const { consume, get } = limiterOf(world, { points: 1, duration: 5 })
        assert.equal((await consume('ada', 1, 1)).allowed, true)
        assert.equal((await get('ada', 1))?.resetAt, world.clock.now + second)
      },
    }),
    memory({ behaviour: 'one call may consume for ever', differs: foreverDiffers }),
    memory({
      behaviour: 'one penalty may have a duration of its own',
      by: '`force` with the rules of that call',
      async run(world) {
        const { rules } = await limiterOf(world, { points: 1, duration: 5 }).penalty('ada', 1, 1)
        assert.equal(rules[0]!.resetAt, world.clock.now + second)
      },
    }),
    memory({
      behaviour: 'one reward may have a duration of its own',
      differs: 'a place that is given back is gone from every window; nothing below zero is kept',
    }),
    memory({ behaviour: 'points of a limiter without duration never come back', differs: foreverDiffers }),
    memory({
      behaviour: 'a key can be blocked for ever',
      differs: 'a block has an end, told in milliseconds; `0/day` refuses for ever',
    }),
    memory({
      behaviour: 'the used points of a key can be set',
      by: '`forget`, then `force` with the weight',
      async run(world) {
        const { set, get } = limiterOf(world, { points: 10, duration: 1 })
        await set('ada', 12)
        const { used, remaining } = (await get('ada'))!
        assert.deepEqual([used, remaining], [12, 0])
      },
    }),
    memory({ behaviour: 'the used points of a key can be set for ever', differs: foreverDiffers }),
    memory({
      behaviour: 'once the window is over a whole new one begins',
      async run(world) {
        const { consume, get } = limiterOf(world, { points: 2, duration: 5 })
        await consume('ada')
        world.clock.now += 6 * second
        assert.equal((await consume('ada')).allowed, true)
        assert.deepEqual(await get('ada'), { used: 1, remaining: 1, resetAt: world.clock.now + 5 * second })
      },
    }),
    memory({
      behaviour: 'with no points at all nothing can be consumed',
      run: async (world) =>
        assert.equal((await limiterOf(world, { points: 0, duration: 5 }).consume('ada')).allowed, false),
    }),
    union({
      behaviour: 'a union has at least two members',
      differs: 'a call asks a list of limits; a list of one is a list, and an empty one admits everything',
    }),
    union({
      behaviour: 'every member of a union is a limiter',
      by: 'the rules of one call',
      run: ({ store }) =>
        assert.rejects(createLimits({ store }).take('ada', [pair[0]!, {} as never]), { name: 'LimitsError' }),
    }),
    union({
      behaviour: 'a call consumes from all',
      by: 'the rules of one call',
      async run({ store }) {
        const decision = await createLimits({ store }).take('ada', pair)
        assert.equal(decision.allowed, true)
        assert.deepEqual(leftOf(decision), [0, 1])
      },
    }),
    union({
      behaviour: 'one member that has not enough refuses, and is named',
      by: '`refusedBy` of one call',
      async run({ store }) {
        const decision = await createLimits({ store }).take('ada', pair, { weight: 2 })
        assert.deepEqual([decision.allowed, decision.refusedBy], [false, ['limit1']])
        assert.equal(leftOf(decision)[0], 0)
      },
    }),
    union({
      behaviour: 'two members that have not enough are both named',
      by: '`refusedBy` of one call',
      async run({ store }) {
        const decision = await createLimits({ store }).take('ada', pair, { weight: 3 })
        assert.deepEqual([decision.allowed, decision.refusedBy], [false, ['limit1', 'limit2']])
        assert.deepEqual(leftOf(decision), [0, 0])
      },
    }),
  ],
}
