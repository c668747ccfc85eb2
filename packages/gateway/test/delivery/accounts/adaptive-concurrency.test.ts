import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AdaptiveConcurrency } from '../../../src/delivery/accounts/adaptive-concurrency.ts'

/** Simulates seconds of calls that all take `tookMs`, with as many in flight as the limit allows. */
function seconds(concurrency: AdaptiveConcurrency, from: number, count: number, tookMs: number): number {
  const until = from + count * 1_000
  for (let now = from + 20; now <= until; now += 20) concurrency.sample(now, tookMs, concurrency.limit)
  return until
}

/** Its seconds begin at 0. */
function begin(): AdaptiveConcurrency {
  const concurrency = new AdaptiveConcurrency({ min: 2, max: 64, slowdown: 2 })
  concurrency.sample(0, 50, 1)
  return concurrency
}

test('one slow second is ignored, a second one shrinks the limit to 70 % of the calls in flight', () => {
  const concurrency = begin()
  let now = seconds(concurrency, 0, 5, 50)
  now = seconds(concurrency, now, 1, 400)
  assert.equal(concurrency.limit, 64)
  now = seconds(concurrency, now, 2, 50)
  now = seconds(concurrency, now, 1, 400)
  assert.equal(concurrency.limit, 64, 'two seconds that do not follow each other are two single ones')
  seconds(concurrency, now, 1, 400)
  assert.equal(concurrency.limit, 44)
})

test('the limit grows step by step up to the maximum', () => {
  const concurrency = begin()
  let now = seconds(concurrency, 0, 5, 50)
  now = seconds(concurrency, now, 4, 400)
  const shrunk = concurrency.limit
  assert.ok(shrunk < 40)
  now = seconds(concurrency, now, 2, 50)
  const grown = concurrency.limit
  assert.ok(grown > shrunk && grown <= shrunk + 3 * 2, `${shrunk} → ${grown}`)
  seconds(concurrency, now, 60, 50)
  assert.equal(concurrency.limit, 64)
})

test('the limit never falls below the minimum, and lasting latency there becomes the usual', () => {
  const concurrency = begin()
  let now = seconds(concurrency, 0, 5, 50)
  now = seconds(concurrency, now, 20, 400)
  assert.equal(concurrency.limit, 2)
  seconds(concurrency, now, 60, 400)
  assert.ok(concurrency.limit > 2)
})

/** The smallest limit while of so many calls a second every n-th is slow, after ten seconds in which none was. */
function leastOf(perSecond: number, seconds: number, slowEvery: number): number {
  const concurrency = begin()
  const quick = perSecond * 10
  let least = concurrency.limit
  for (let call = 1; call <= quick + perSecond * seconds; call += 1) {
    const slow = call > quick && call % slowEvery === 0
    concurrency.sample((call / perSecond) * 1_000, slow ? 2_000 : 50, concurrency.limit)
    least = Math.min(least, concurrency.limit)
  }
  return least
}

for (const perSecond of [1, 3, 10, 40, 90]) {
  test(`occasional slow calls among ${perSecond} per second do not shrink the limit`, () => {
    assert.equal(leastOf(perSecond, 600, Math.max(10, perSecond)), 64, 'one in each second, or in ten')
    if (perSecond >= 40) assert.equal(leastOf(perSecond, 600, perSecond / 2), 64, 'two in each second')
  })

  test(`slow calls at ${perSecond} per second shrink the limit`, () => {
    const concurrency = begin()
    let now = 0
    const pass = (calls: number, tookMs: number): void => {
      for (let call = 0; call < calls; call += 1) {
        now += 1_000 / perSecond
        concurrency.sample(now, tookMs, concurrency.limit)
      }
    }
    pass(perSecond * 100, 50)
    pass(Math.max(perSecond * 4, 35), 400)
    assert.ok(concurrency.limit < 64, `${concurrency.limit}`)
  })
}

test('among thousands of calls per second one in a hundred may be slow, and no more', () => {
  assert.equal(leastOf(2_000, 5, 125), 64)
  assert.ok(leastOf(2_000, 5, 80) < 64)
})

test('a few fast calls do not lower the usual latency', () => {
  const concurrency = begin()
  let now = 0
  /** Two calls of each hundred take a second. */
  const pass = (calls: number, perSecond: number): void => {
    for (let call = 0; call < calls; call += 1) {
      now += 1_000 / perSecond
      concurrency.sample(now, call % 50 === 0 ? 1_000 : 50, concurrency.limit)
    }
  }
  pass(200_000, 1_000)
  assert.equal(concurrency.limit, 64)
  pass(1_000, 5)
  let least = concurrency.limit
  for (let turn = 0; turn < 20; turn += 1) {
    pass(1_000, 1_000)
    least = Math.min(least, concurrency.limit)
  }
  assert.equal(least, 64)
})
