import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Way } from '../../../src/delivery/accounts/way.ts'

const left = 1_000_000
const known = (tookMs: number): Way => {
  const way = new Way(5)
  for (let call = 0; call < 32; call += 1) way.sample(tookMs)
  return way
}

test('before a usual time is known, a call arrives when it is answered, and until then may arrive now', () => {
  const way = new Way(5)
  assert.equal(way.arrivedBy(left, left + 3), left)
  assert.equal(way.arrivedBy(left, left + 120), left + 115)
})

test('the time beyond the usual counts as time on the way', () => {
  const way = known(200)
  assert.equal(way.arrivedBy(left, left + 200), left)
  assert.equal(way.arrivedBy(left, left + 205), left)
  assert.equal(way.arrivedBy(left, left + 380), left + 175)
})

test('the usual time falls after one block of quick answers, and rises after two of slow ones', () => {
  const way = known(100)
  for (let call = 0; call < 16; call += 1) way.sample(10)
  assert.equal(way.arrivedBy(left, left + 115), left + 100)
  for (let call = 0; call < 16; call += 1) way.sample(300)
  assert.equal(way.arrivedBy(left, left + 115), left + 100)
  for (let call = 0; call < 16; call += 1) way.sample(300)
  assert.equal(way.arrivedBy(left, left + 305), left)
})

test('varying answers cost nothing as long as three of four are within the usual time', () => {
  const way = new Way(5)
  for (let call = 0; call < 32; call += 1) way.sample(call % 4 === 0 ? 500 : 80)
  assert.equal(way.arrivedBy(left, left + 85), left)
})

test('a hanging call counts at most two seconds later', () => {
  const way = known(10)
  assert.equal(way.isOver(left, left + 1_000), false)
  assert.equal(way.isOver(left, left + 3_000), true)
  assert.equal(way.arrivedBy(left, left + 60_000), left + 2_000)
})
