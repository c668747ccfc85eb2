/**
 * The adapter against the package itself, on one clock: with `countRefused` every answer is the same, and without it
 * the first answer that differs comes after a refusal.
 */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'
import { seededRandom, seedOfRun } from '@sluice/limits-conformance'
import type * as Package from 'rolling-rate-limiter'
import {
  createLimits,
  createRollingRateLimiter,
  fromRollingRateLimiter,
  LimitsError,
  memoryStore,
  type RollingRateLimiterOptions,
} from '../src/index.ts'

const world = { now: Date.UTC(2026, 10, 21, 12) }
const require = createRequire(import.meta.url)
const theirs = createRequire(require.resolve('rolling-rate-limiter'))
// The package reads its clock from a native module, which is replaced before it is loaded.
theirs('microtime').now = () => world.now * 1_000
const { InMemoryRateLimiter } = require('rolling-rate-limiter') as typeof Package

interface Answer {
  readonly ours: boolean
  readonly theirs: boolean
}

async function play(options: RollingRateLimiterOptions, calls: number, seed: number): Promise<Answer[]> {
  const random = seededRandom(seed)
  const { countRefused: _, ...plain } = options
  const limiter = new InMemoryRateLimiter(plain)
  const limits = createLimits({ store: memoryStore({ now: () => world.now }) })
  const rules = fromRollingRateLimiter(options)
  const answers: Answer[] = []
  for (let call = 0; call < calls; call += 1) {
    world.now += random.pick([0, 1, 2, 5, 10, 11, 30, 100])
    const id = random.pick(['a', 'b'])
    const { allowed } = await limits.take(id, rules)
    answers.push({ ours: allowed, theirs: !(await limiter.limit(id)) })
  }
  for (const id of ['a', 'b']) await limiter.clear(id)
  return answers
}

const optionSets: readonly RollingRateLimiterOptions[] = [
  { interval: 100, maxInInterval: 5 },
  { interval: 60, maxInInterval: 1 },
  { interval: 200, maxInInterval: 8, minDifference: 5 },
  { interval: 100, maxInInterval: 3, minDifference: 11 },
]

describe('limits with the options of rolling-rate-limiter', () => {
  it('answer the same as the package when refused attempts count, as they do there', async (t) => {
    t.diagnostic(`SLUICE_SEED=${seedOfRun()}`)
    for (const [index, options] of optionSets.entries()) {
      const answers = await play({ ...options, countRefused: true }, 1_500, seedOfRun() + index)
      for (const [call, answer] of answers.entries())
        assert.equal(answer.ours, answer.theirs, `${JSON.stringify(options)}, call ${call}`)
      assert.ok(answers.some(({ ours }) => ours) && answers.some(({ ours }) => !ours))
    }
  })

  it('admit more when they do not: the package refuses a caller for as long as it keeps trying', async () => {
    const options = { interval: 1_000, maxInInterval: 2 }
    const limiter = new InMemoryRateLimiter(options)
    const limits = createLimits({ store: memoryStore({ now: () => world.now }) })
    const rules = fromRollingRateLimiter(options)
    const admitted = { ours: 0, theirs: 0 }
    for (let call = 0; call < 100; call += 1, world.now += 100) {
      if ((await limits.take('a', rules)).allowed) admitted.ours += 1
      if (!(await limiter.limit('a'))) admitted.theirs += 1
    }
    await limiter.clear('a')
    assert.deepEqual(admitted, { ours: 20, theirs: 2 })
  })

  it('answer the same up to the first refusal in any case', async () => {
    for (const [index, options] of optionSets.entries()) {
      const answers = await play(options, 500, seedOfRun() + index)
      const first = answers.findIndex(({ theirs: allowed }) => !allowed)
      assert.ok(first >= 0)
      for (const answer of answers.slice(0, first + 1)) assert.equal(answer.ours, answer.theirs)
    }
  })

  it('refuse numbers that make no sense', () => {
    const wrong: object[] = [
      {},
      { interval: 0, maxInInterval: 1 },
      { interval: -5, maxInInterval: 1 },
      { interval: 1.5, maxInInterval: 1 },
      { interval: 100, maxInInterval: 0 },
      { interval: 100, maxInInterval: Number.NaN },
      { interval: 100, maxInInterval: 1, minDifference: -1 },
    ]
    for (const options of wrong) {
      assert.throws(
        () => fromRollingRateLimiter(options as RollingRateLimiterOptions),
        (error) => error instanceof LimitsError && error.code === 'INVALID_ARGUMENT',
        JSON.stringify(options),
      )
    }
    assert.throws(
      () => fromRollingRateLimiter({ interval: 400 * 86_400_000, maxInInterval: 1 }),
      (error) => error instanceof LimitsError && error.code === 'INVALID_WINDOW',
    )
  })
})

describe('a limiter that is called like rolling-rate-limiter', () => {
  const store = memoryStore({ now: () => world.now })
  const limiter = createRollingRateLimiter({ interval: 100, maxInInterval: 2, store })
  const called = (id: string): Promise<readonly unknown[]> =>
    new Promise((resolve) => limiter(id, (...values) => resolve(values)))

  it('tells a callback how long to wait and how many are left, and a promise how long to wait', async () => {
    assert.deepEqual(await called('ada'), [null, 0, 1])
    assert.equal(await limiter('ada'), 0)
    assert.deepEqual(await called('ada'), [null, 100, 0])
    world.now += 40
    assert.equal(await limiter('ada'), 60)
    assert.equal(await limiter('bob'), 0)
  })

  it('counts calls without an id together', async () => {
    const anybody = () => new Promise((resolve) => limiter((...values) => resolve(values)))
    assert.deepEqual(await anybody(), [null, 0, 1])
    assert.equal(await limiter(), 0)
    assert.deepEqual(await anybody(), [null, 100, 0])
  })

  it('hands an error to the callback, and to the promise', async () => {
    const broken = createRollingRateLimiter({
      interval: 100,
      maxInInterval: 2,
      store: { ...store, sync: undefined, decide: () => Promise.reject(new Error('away')) } as never,
    })
    const values = await new Promise<readonly unknown[]>((resolve) =>
      broken('ada', (...heard) => resolve(heard)),
    )
    assert.equal((values[0] as Error).message, 'away')
    await assert.rejects(broken('ada'), /away/)
  })
})
