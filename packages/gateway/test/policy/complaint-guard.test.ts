import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { complaintBound, departureShare, nextStage } from '../../src/policy/complaint-guard.ts'
import type { ComplaintStage } from '../../src/reports.ts'
import { testSeed } from '../harness.ts'

const rules = { warnAt: 0.0005, pauseAt: 0.001, minimumDelivered: 1_000 }
const counts = fc
  .record({
    delivered: fc.integer({ min: 1, max: 1_000_000 }),
    share: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  .map(({ delivered, share }) => ({ delivered, complained: Math.round(share * share * share * delivered) }))
const settings = { seed: testSeed, numRuns: 500 }

/**
 * The lower end of the interval as its definition says: the smallest rate whose normal approximation, with its own
 * variance, does not lie more than z standard deviations below what was seen. Found by bisection.
 */
function boundByDefinition(delivered: number, complained: number): number {
  const seen = complained / delivered
  const isWithin = (rate: number): boolean =>
    seen - rate <= 3.2905267314919255 * Math.sqrt((rate * (1 - rate)) / delivered)
  let low = 0
  let high = seen
  for (let step = 0; step < 200; step += 1) {
    const middle = (low + high) / 2
    if (isWithin(middle)) high = middle
    else low = middle
  }
  return high
}

test('the bound is the lower end of the Wilson interval of 99.9 %', () => {
  // Computed with Python's statistics.NormalDist().inv_cdf(0.9995) and the closed form.
  for (const [complained, delivered, bound] of [
    [1, 1_000, 7.84419862195029e-5],
    [4, 1_000, 0.000892592709553124],
    [30, 2_000, 0.008317563959450828],
  ] as const)
    assert.ok(Math.abs(complaintBound({ delivered, complained }) - bound) < 1e-15)
  fc.assert(
    fc.property(counts, ({ delivered, complained }) => {
      const bound = complaintBound({ delivered, complained })
      assert.ok(Math.abs(bound - boundByDefinition(delivered, complained)) < 1e-9)
      assert.ok(bound >= 0 && bound <= complained / delivered)
    }),
    settings,
  )
})

test('the bound is 0 without deliveries or complaints, and a rate above all counts as all', () => {
  assert.equal(complaintBound({ delivered: 0, complained: 0 }), 0)
  assert.equal(complaintBound({ delivered: 0, complained: 5 }), 0)
  assert.equal(complaintBound({ delivered: 1_000, complained: 0 }), 0)
  assert.equal(
    complaintBound({ delivered: 100, complained: 250 }),
    complaintBound({ delivered: 100, complained: 100 }),
  )
})

test('one complaint in a thousand changes nothing, thirty in two thousand pause', () => {
  for (const before of ['free', 'slowed', 'paused'] as const)
    assert.equal(nextStage(rules, { delivered: 1_000, complained: 1 }, before), 'free')
  assert.equal(nextStage(rules, { delivered: 2_000, complained: 30 }, 'free'), 'paused')
  assert.equal(nextStage(rules, { delivered: 1_000, complained: 4 }, 'free'), 'slowed')
})

test('fewer deliveries than the minimum are not judged', () => {
  assert.equal(nextStage(rules, { delivered: 999, complained: 500 }, 'free'), 'free')
  assert.equal(nextStage(rules, { delivered: 999, complained: 500 }, 'slowed'), 'free')
  assert.equal(nextStage(rules, { delivered: 1_000, complained: 500 }, 'free'), 'paused')
})

test('a pause ends when the bound is below 80 % of pauseAt, however few deliveries are left in the window', () => {
  fc.assert(
    fc.property(counts, (each) => {
      const bound = complaintBound(each)
      assert.equal(nextStage(rules, each, 'paused') === 'paused', bound >= 0.8 * rules.pauseAt)
    }),
    settings,
  )
  assert.equal(nextStage(rules, { delivered: 500, complained: 10 }, 'paused'), 'paused')
})

test('a stage that was entered is the next one too: no two stages alternate on the same counts', () => {
  fc.assert(
    fc.property(counts, fc.constantFrom<ComplaintStage>('free', 'slowed', 'paused'), (each, before) => {
      const once = nextStage(rules, each, before)
      assert.equal(nextStage(rules, each, once), once)
    }),
    settings,
  )
})

test('departures fall linearly from all at warnAt to a tenth at pauseAt', () => {
  for (const [bound, share] of [
    [0, 1],
    [0.0005, 1],
    [0.00075, 0.55],
    [0.0008, 0.46],
    [0.001, 0.1],
    [0.5, 0.1],
  ] as const)
    assert.ok(Math.abs(departureShare(rules, bound) - share) < 1e-12, `${bound}`)
})
