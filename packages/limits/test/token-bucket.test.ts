/** Token buckets over memory against the plainest model there is, and what they do not promise. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom, seedOfRun } from '@sluice/limits-conformance'
import { LimitsError, memoryBuckets, type TokenBucketOptions, tokenBucket } from '../src/index.ts'

const start = Date.UTC(2026, 10, 21, 12)

function open(options: Omit<TokenBucketOptions, 'store'>) {
  const world = { now: start }
  const store = memoryBuckets({ now: () => world.now })
  return { world, store, bucket: tokenBucket({ ...options, store }) }
}

describe('a token bucket', () => {
  it('lets a burst of its capacity through, and then the refilled tokens', async () => {
    const { bucket, world } = open({ capacity: 3, refill: '10/s' })
    assert.deepEqual(await bucket.take('ada'), {
      allowed: true,
      remaining: 2,
      retryAfterMs: 0,
      resetAt: start + 100,
    })
    assert.equal((await bucket.take('ada', 2)).remaining, 0)
    const refused = await bucket.take('ada')
    assert.deepEqual(refused, { allowed: false, remaining: 0, retryAfterMs: 100, resetAt: start + 300 })
    assert.equal((await bucket.take('bob', 3)).allowed, true)
    world.now += 99
    assert.equal((await bucket.take('ada')).allowed, false)
    world.now += 1
    assert.equal((await bucket.take('ada')).allowed, true)
  })

  it('takes all tokens or none, previews a call, and is filled by reset', async () => {
    const { bucket } = open({ capacity: 5, refill: '1/min' })
    assert.equal((await bucket.take('ada', 4)).remaining, 1)
    const short = await bucket.take('ada', 2)
    assert.deepEqual([short.allowed, short.remaining, short.retryAfterMs], [false, 1, 60_000])
    assert.equal((await bucket.check('ada')).allowed, true)
    assert.equal((await bucket.check('ada')).remaining, 1)
    await bucket.reset('ada')
    assert.equal((await bucket.take('ada', 5)).allowed, true)
    assert.equal((await bucket.take('ada', 6)).retryAfterMs, Number.POSITIVE_INFINITY)
  })

  it('lets nearly twice its rate through in one rolling window, as its description says', async () => {
    const { bucket, world } = open({ capacity: 100, refill: '100/s' })
    let taken = 0
    for (; world.now < start + 1_000; world.now += 1) while ((await bucket.take('ada')).allowed) taken += 1
    assert.ok(taken >= 199 && taken <= 200, `${taken} of 100 in one second`)
  })

  it('reckons like a bucket that is filled drop by drop', async (t) => {
    t.diagnostic(`SLUICE_SEED=${seedOfRun()}`)
    const random = seededRandom(seedOfRun())
    for (let round = 0; round < 60; round += 1) {
      const capacity = random.between(0, 9)
      const [max, windowMs] = [random.between(1, 7), random.pick([1, 3, 10, 64])]
      const { bucket, world } = open({ capacity, refill: `${max}/${windowMs}ms` })
      // In tokens × windowMs, one step for each millisecond.
      let level = capacity * windowMs
      for (let call = 0; call < 60; call += 1) {
        for (let left = random.pick([0, 0, 1, 2, 5, 40]); left > 0; left -= 1) {
          world.now += 1
          level = Math.min(capacity * windowMs, level + max)
        }
        const cost = random.between(1, 4)
        const allowed = level >= cost * windowMs
        if (allowed) level -= cost * windowMs
        const decision = await bucket.take('ada', cost)
        assert.deepEqual([decision.allowed, decision.remaining], [allowed, Math.floor(level / windowMs)])
      }
    }
  })

  it('refills nothing while the clock steps back, and goes on from there', async () => {
    const { bucket, world } = open({ capacity: 2, refill: '1/s' })
    await bucket.take('ada', 2)
    world.now -= 3_600_000
    assert.equal((await bucket.take('ada')).allowed, false)
    world.now = start + 1_000
    assert.equal((await bucket.take('ada')).allowed, true)
  })

  it('keeps the tokens that are left when its rate changes', async () => {
    const { store } = open({ capacity: 10, refill: '10/s' })
    await tokenBucket({ capacity: 10, refill: '10/s', store }).take('ada', 6)
    assert.equal((await tokenBucket({ capacity: 10, refill: '1/h', store }).check('ada')).remaining, 4)
    assert.equal((await tokenBucket({ capacity: 3, refill: '1/h', store }).check('ada')).remaining, 0)
  })

  it('keeps no buckets that are full again', async () => {
    const { bucket, store, world } = open({ capacity: 2, refill: '10/s' })
    for (let key = 0; key < 5_000; key += 1) {
      await bucket.take(`user ${key}`)
      world.now += 1
    }
    assert.ok(store.size < 500, `${store.size} buckets are kept`)
  })

  it('refuses invalid arguments, and a capacity of 0 refuses every call', async () => {
    const refused = (code: string, reason: RegExp) => (error: unknown) =>
      error instanceof LimitsError && error.code === code && reason.test(error.message)
    const wrong: [object, string, RegExp][] = [
      [{ capacity: -1, refill: '1/s' }, 'INVALID_ARGUMENT', /capacity/],
      [{ capacity: 1.5, refill: '1/s' }, 'INVALID_ARGUMENT', /capacity/],
      [{ capacity: Number.NaN, refill: '1/s' }, 'INVALID_ARGUMENT', /capacity/],
      [{ refill: '1/s' }, 'INVALID_ARGUMENT', /capacity/],
      [{ capacity: 1, refill: '0/s' }, 'INVALID_ARGUMENT', /never fill/],
      [{ capacity: 1, refill: '-1/s' }, 'INVALID_WINDOW', /-1/],
      [{ capacity: 1, refill: '1/0s' }, 'INVALID_WINDOW', /0 ms/],
      [{ capacity: 1 }, 'INVALID_WINDOW', /window/],
      [{ capacity: 1, refill: '1/s', store: {} }, 'INVALID_ARGUMENT', /store/],
    ]
    for (const [options, code, reason] of wrong)
      assert.throws(() => tokenBucket(options as TokenBucketOptions), refused(code, reason))
    assert.throws(() => memoryBuckets({ now: 1 as never }), refused('INVALID_ARGUMENT', /now/))
    const bucket = tokenBucket({ capacity: 0, refill: '1/s' })
    const never = await bucket.take('ada')
    assert.deepEqual([never.allowed, never.retryAfterMs], [false, Number.POSITIVE_INFINITY])
    for (const cost of [0, -1, 0.5, Number.NaN])
      await assert.rejects(bucket.take('ada', cost), refused('INVALID_ARGUMENT', /cost/))
    await assert.rejects(bucket.take(''), refused('INVALID_ARGUMENT', /key/))
    await assert.rejects(bucket.reset(''), refused('INVALID_ARGUMENT', /key/))
  })
})
