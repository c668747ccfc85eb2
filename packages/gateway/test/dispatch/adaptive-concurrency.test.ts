import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AdaptiveConcurrency } from '../../src/dispatch/adaptive-concurrency.ts'

/** Seconds of calls that all take so long, with as many under way as the limit allows. */
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

test('one slow second is forgiven, the second on end shrinks to 70 % of what was under way', () => {
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

test('it grows step by step from where it is, up to the largest', () => {
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

test('it never falls below the smallest, and what lasts there becomes the usual', () => {
  const concurrency = begin()
  let now = seconds(concurrency, 0, 5, 50)
  now = seconds(concurrency, now, 20, 400)
  assert.equal(concurrency.limit, 2)
  seconds(concurrency, now, 60, 400)
  assert.ok(concurrency.limit > 2)
})
