import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWindow } from '@sluice/limits'
import fc from 'fast-check'
import { createRollingRate } from '../../src/dispatch/rate.ts'

const seed = Number(process.env.SLUICE_SEED ?? 20_261_121)

/** The most instants in any half-open interval of the given length. */
function densest(instants: readonly number[], windowMs: number): number {
  let most = 0
  instants.forEach((from) => {
    most = Math.max(most, instants.filter((instant) => instant >= from && instant < from + windowMs).length)
  })
  return most
}

test(`an account's rate holds in every literal window, and nothing that it admits is held back (seed ${seed})`, () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({ max: fc.integer({ min: 1, max: 70 }), windowMs: fc.integer({ min: 1, max: 500 }) }),
        {
          minLength: 1,
          maxLength: 3,
        },
      ),
      fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 300 }),
      fc.integer({ min: 0, max: 20 }),
      (windows, steps, marginMs) => {
        const rate = createRollingRate(
          windows.map((window) => ({ ...window, text: '' })),
          marginMs,
        )
        const taken: number[] = []
        let now = 1_000
        for (const step of steps) {
          now += step
          const admits = windows.every(
            ({ max, windowMs }) =>
              taken.filter((instant) => instant > now - windowMs - marginMs).length < max,
          )
          assert.equal(rate.freeAt(now) <= now, admits)
          if (!admits) continue
          rate.take(now)
          taken.push(now)
        }
        for (const { max, windowMs } of windows) assert.ok(densest(taken, windowMs + marginMs) <= max)
      },
    ),
    { seed, numRuns: 300 },
  )
})

test('a place that was undone is free again, also when the ring had come round', () => {
  const rate = createRollingRate([parseWindow('100/s')], 0)
  for (let i = 0; i < 1_000; i += 1) rate.take(i * 10)
  const now = 10_000
  assert.equal(rate.freeAt(now), now)
  const takenAt = rate.take(now)
  assert.equal(rate.freeAt(now), 10_010)
  rate.undo(takenAt)
  assert.equal(rate.freeAt(now), now)
})

test('what others followed cannot be undone, which keeps the window whole', () => {
  const rate = createRollingRate([parseWindow('2/s')], 0)
  const first = rate.take(0)
  rate.take(500)
  rate.undo(first)
  assert.equal(rate.freeAt(500), 1_000)
})

test('a rate of nothing never frees, no window at all always does', () => {
  assert.equal(createRollingRate([parseWindow('0/s')], 0).freeAt(5), Number.POSITIVE_INFINITY)
  assert.equal(createRollingRate([], 0).freeAt(5), 5)
})

test('what leaves later than it was taken counts there, and the order of the others is kept', () => {
  const rate = createRollingRate([parseWindow('3/s')], 0)
  for (const instant of [0, 100, 200]) rate.take(instant)
  assert.equal(rate.freeAt(200), 1_000)
  assert.equal(rate.move(0, 150), 150)
  assert.equal(rate.freeAt(200), 1_100)
  assert.equal(rate.move(100, 900), 900)
  assert.equal(rate.freeAt(900), 1_150)
  assert.equal(rate.move(200, 100), 200, 'never to an earlier instant')
  assert.equal(rate.freeAt(900), 1_150)
})
