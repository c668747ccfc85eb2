import assert from 'node:assert/strict'
import { test } from 'node:test'
import { latenesses, overfull, percentile, slackMs } from './windows.ts'

test('a window that holds one too many is counted, one of exactly its length is not', () => {
  const limit = { max: 2, windowMs: 100 }
  assert.equal(overfull([0, 10, 100], limit), 0)
  assert.equal(overfull([99, 0, 10], limit), 1)
  assert.equal(slackMs([0, 10, 103, 200], limit), 3)
})

test('lateness counts from what the limits admit, and from the acceptance', () => {
  const limits = [
    { max: 1, windowMs: 100 },
    { max: 2, windowMs: 500 },
  ]
  const arrivals = [0, 125, 521].map((at) => ({ at, acceptedAt: 0 }))
  assert.deepEqual(latenesses(arrivals, limits, 20), [0, 5, 1])
  assert.deepEqual(latenesses([{ at: 7, acceptedAt: 4 }], limits, 20), [3])
  assert.equal(percentile([3, 1, 2], 0.5), 2)
  assert.equal(percentile([3, 1, 2], 0.99), 3)
})
