import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { bucketMsOf, RollingComplaints } from '../../src/admission/complaint-counts.ts'
import { day, testSeed } from '../harness.ts'

const windowMs = 7 * day
const start = Date.UTC(2026, 10, 21, 12)

test('the counts are those of the window and at most a 168th of it more, beside a list of all events', () => {
  const event = fc.record({
    afterMs: fc.integer({ min: 0, max: day }),
    delivered: fc.integer({ min: 0, max: 5 }),
    complained: fc.integer({ min: 0, max: 2 }),
  })
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      const counts = new RollingComplaints(windowMs)
      const all: { readonly at: number; readonly delivered: number; readonly complained: number }[] = []
      let now = start
      const within = (ms: number, key: 'delivered' | 'complained'): number =>
        all.filter(({ at }) => at > now - ms).reduce((sum, each) => sum + each[key], 0)
      for (const { afterMs, delivered, complained } of events) {
        now += afterMs
        counts.roll(now)
        counts.addDelivered(now, delivered)
        counts.addComplained(now, complained)
        all.push({ at: now, delivered, complained })
        for (const key of ['delivered', 'complained'] as const) {
          assert.ok(counts[key] >= within(windowMs, key))
          assert.ok(counts[key] <= within(windowMs + bucketMsOf(windowMs), key))
        }
      }
    }),
    { seed: testSeed, numRuns: 200 },
  )
})

test('the instant at which counts will have fallen is the one at which they have', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 8 * day }), { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 0, max: 40 }),
      (offsets, atMost) => {
        const counts = new RollingComplaints(windowMs)
        for (const offset of offsets.toSorted((a, b) => a - b)) {
          counts.roll(start + offset)
          counts.addComplained(start + offset)
        }
        const now = start + 8 * day
        counts.roll(now)
        const found = counts.earliest(({ complained }) => complained <= atMost)
        if (found <= now) return
        counts.roll(found - 1)
        // One bucket is the least step: what holds now holds from the next one on.
        assert.ok(counts.complained > atMost || found - now <= bucketMsOf(windowMs))
        counts.roll(found)
        assert.ok(counts.complained <= atMost)
      },
    ),
    { seed: testSeed, numRuns: 200 },
  )
})

test('what is older than the window does not count, and an event of the past counts in its own bucket', () => {
  const counts = new RollingComplaints(windowMs)
  counts.roll(start)
  counts.addDelivered(start - windowMs - 2 * bucketMsOf(windowMs), 5)
  counts.addDelivered(start - day, 3)
  assert.equal(counts.delivered, 3)
  counts.roll(start + windowMs - day + 2 * bucketMsOf(windowMs))
  assert.equal(counts.delivered, 0)
})

test('departures are those of the last sixty minutes', () => {
  const counts = new RollingComplaints(windowMs)
  for (let minute = 0; minute < 120; minute += 1) counts.addDepartures(start + minute * 60_000, 2)
  assert.equal(counts.departedLastHour, 120)
  counts.roll(start + 140 * 60_000)
  assert.equal(counts.departedLastHour, 78)
})
