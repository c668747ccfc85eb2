import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Breaker, defaultBreakerPolicy } from '../../../src/delivery/accounts/breaker.ts'

const start = 1_000_000

test('a breaker opens at the share of failures within the window, and not before there are enough calls', () => {
  const breaker = new Breaker(defaultBreakerPolicy)
  for (let call = 0; call < 9; call += 1) assert.equal(breaker.end(start + call, false, true), undefined)
  assert.equal(breaker.end(start + 9, false, true), 'opened')
  assert.equal(breaker.freeAt(start + 10), start + 5_009)
  const half = new Breaker(defaultBreakerPolicy)
  for (let call = 0; call < 11; call += 1) {
    assert.equal(half.end(start, false, false), undefined)
    assert.equal(half.end(start, false, call >= 6), undefined)
  }
  for (let call = 0; call < 5; call += 1) assert.equal(half.end(start, false, true), undefined)
  assert.equal(half.end(start, false, false), undefined)
  for (let call = 0; call < 7; call += 1) assert.equal(half.end(start, false, true), undefined)
  assert.equal(half.end(start, false, true), 'opened', 'eighteen of thirty-six')
})

test('ten consecutive failures open the breaker, however long they took', () => {
  const breaker = new Breaker(defaultBreakerPolicy)
  for (let call = 0; call < 9; call += 1)
    assert.equal(breaker.end(start + call * 3_600_000, false, true), undefined)
  assert.equal(breaker.end(start + 9 * 3_600_000, false, true), 'opened')
})

test('ten consecutive failures open the breaker, however many calls succeeded before', () => {
  const breaker = new Breaker({ ...defaultBreakerPolicy, inARow: 4 })
  for (let call = 0; call < 10_000; call += 1) breaker.end(start, false, false)
  for (let call = 0; call < 3; call += 1) assert.equal(breaker.end(start, false, true), undefined)
  assert.equal(breaker.end(start, false, false), undefined, 'one that does not fail ends the row')
  for (let call = 0; call < 3; call += 1) assert.equal(breaker.end(start, false, true), undefined)
  assert.equal(breaker.end(start, false, true), 'opened')
  assert.equal(breaker.begin(), true)
  assert.equal(breaker.end(start, true, false), 'closed')
  for (let call = 0; call < 3; call += 1)
    assert.equal(breaker.end(start + 60_000, false, true), undefined, 'a row begins anew when it has closed')
})

test('failures before the window do not count', () => {
  const breaker = new Breaker(defaultBreakerPolicy)
  for (let call = 0; call < 5; call += 1) breaker.end(start, false, true)
  breaker.end(start, false, false)
  for (let call = 0; call < 3; call += 1) breaker.end(start, false, true)
  assert.equal(breaker.end(start + 10_001, false, true), undefined)
})

test('an open breaker admits one probe at a time; a failed probe doubles the cool-down up to the maximum, a successful one closes', () => {
  const breaker = new Breaker({ ...defaultBreakerPolicy, coolDownMaxMs: 15_000 })
  for (let call = 0; call < 10; call += 1) breaker.end(start, false, true)
  let at = start
  for (const coolDownMs of [5_000, 10_000, 15_000, 15_000]) {
    at = breaker.freeAt(at)
    assert.equal(breaker.begin(), true)
    assert.equal(breaker.freeAt(at), Number.POSITIVE_INFINITY, 'no second call beside the probe')
    assert.equal(breaker.begin(), false)
    assert.equal(breaker.end(at, false, false), undefined, 'what began before it opened says nothing')
    assert.equal(breaker.end(at, true, true), 'opened')
    assert.equal(breaker.freeAt(at), at + Math.min(coolDownMs * 2, 15_000))
  }
  breaker.begin()
  breaker.abandon()
  assert.equal(breaker.status, 'open', 'a probe that was not made is made again')
  breaker.begin()
  assert.equal(breaker.end(at, true, false), 'closed')
  assert.equal(breaker.record(), undefined)
})

test('a recorded breaker opens again after a restart, also when a probe was in flight', () => {
  const breaker = new Breaker(defaultBreakerPolicy)
  for (let call = 0; call < 10; call += 1) breaker.end(start, false, true)
  breaker.begin()
  const again = new Breaker(defaultBreakerPolicy)
  again.restore(breaker.record()!)
  assert.deepEqual([again.status, again.openUntil], ['open', start + 5_000])
})
