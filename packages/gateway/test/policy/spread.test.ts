import assert from 'node:assert/strict'
import { test } from 'node:test'
import { spreadOffset } from '../../src/policy/quiet.ts'

const tenMinutesMs = 600_000
const ids = Array.from({ length: 10_000 }, (_, index) => `01JD6M3X${String(index).padStart(18, '0')}`)

test('an offset lies within the spread and is a whole number of milliseconds', () => {
  for (const id of ids) {
    const offset = spreadOffset(id, tenMinutesMs)
    assert.ok(Number.isInteger(offset) && offset >= 0 && offset < tenMinutesMs)
  }
})

test('an id keeps its offset', () => {
  assert.equal(spreadOffset('01JD6M3X', tenMinutesMs), spreadOffset('01JD6M3X', tenMinutesMs))
  // fixed values, so that a change of the hash is noticed: waiting notifications would move at an upgrade
  assert.equal(spreadOffset('01JD6M3X', tenMinutesMs), 567_839)
})

test('consecutive ids fill every second of ten minutes about evenly', () => {
  const perMinute = new Array<number>(10).fill(0)
  for (const id of ids) perMinute[Math.floor(spreadOffset(id, tenMinutesMs) / 60_000)]! += 1
  // 1,000 expected in each minute, standard deviation 30
  for (const count of perMinute) assert.ok(Math.abs(count - 1_000) < 150, `minute with ${count}`)
})

test('without a spread all notifications are sent at once', () => {
  assert.equal(spreadOffset('01JD6M3X', 0), 0)
})
