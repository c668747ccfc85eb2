import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWindow } from '@sluice/limits'
import fc from 'fast-check'
import { createRollingRate } from '../../../src/delivery/accounts/rate.ts'
import { seeded } from '../../harness.ts'

const seed = Number(process.env.SLUICE_SEED ?? 20_261_121)

/** The most instants in any half-open interval of the given length. */
function densest(instants: readonly number[], windowMs: number): number {
  let most = 0
  instants.forEach((from) => {
    most = Math.max(most, instants.filter((instant) => instant >= from && instant < from + windowMs).length)
  })
  return most
}

test(`an account’s rate holds in every literal window, and delays no call that it admits (seed ${seed})`, () => {
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

test('an undone place is free again, also after the ring wrapped around', () => {
  const rate = createRollingRate([parseWindow('100/s')], 0)
  for (let i = 0; i < 1_000; i += 1) rate.take(i * 10)
  const now = 10_000
  assert.equal(rate.freeAt(now), now)
  const takenAt = rate.take(now)
  assert.equal(rate.freeAt(now), 10_010)
  rate.undo(takenAt)
  assert.equal(rate.freeAt(now), now)
})

test('a take followed by others cannot be undone, which keeps the window whole', () => {
  const rate = createRollingRate([parseWindow('2/s')], 0)
  const first = rate.take(0)
  rate.take(500)
  rate.undo(first)
  assert.equal(rate.freeAt(500), 1_000)
})

test('a rate of zero never admits a call, and no window always does', () => {
  assert.equal(createRollingRate([parseWindow('0/s')], 0).freeAt(5), Number.POSITIVE_INFINITY)
  assert.equal(createRollingRate([], 0).freeAt(5), 5)
})

test('a moved call counts at its later instant, and the order of the others is kept', () => {
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

test('a call moved after the ring wrapped around still counts at its later instant', () => {
  const rate = createRollingRate([parseWindow('10/s')], 0)
  const late = rate.take(0)
  for (let call = 1; call <= 1_000; call += 1) rate.take(call * 100)
  // Eight of the last second, and the one that leaves now.
  const now = 100_250
  assert.equal(rate.move(late, now), now)
  assert.equal(rate.freeAt(now), now)
  rate.take(now)
  assert.equal(rate.freeAt(now), 100_300)
})

for (const written of ['5000/5s', '20/s, 6000/min', '50000/h']) {
  test(`slices keep ${written}, and delay no longer than a slice (seed ${seed})`, () => {
    const windows = written.split(', ').map(parseWindow)
    const rate = createRollingRate(windows, 20)
    const { max, windowMs } = windows.at(-1)!
    const chance = seeded(seed)
    const taken: number[] = []
    const moved: { at: number; later: number }[] = []
    let now = 1_795_000_000_000
    while (taken.length < max * 2.5) {
      for (const one of moved.splice(0)) {
        if (one.later > now) moved.push(one)
        else {
          assert.equal(rate.move(one.at, now), now)
          taken.push(now)
        }
      }
      const free = rate.freeAt(now)
      if (free > now && moved.length === 0) {
        taken.sort((a, b) => a - b)
        const due = Math.max(
          ...windows.map((each) => (taken.at(-each.max) ?? Number.NEGATIVE_INFINITY) + each.windowMs + 20),
        )
        assert.ok(
          free >= due && free <= due + windowMs / 4_096 + 1,
          `${free - due} ms after the exact instant`,
        )
      }
      now = Math.max(free, now) + Math.floor(chance() * ((windowMs / max) * 1.5))
      if (rate.freeAt(now) > now) continue
      const at = rate.take(now)
      const fate = chance()
      if (fate < 0.01) rate.undo(at)
      else if (fate < 0.02) moved.push({ at, later: now + Math.ceil(chance() * 300) })
      else taken.push(at)
    }
    taken.sort((a, b) => a - b)
    for (const each of windows)
      assert.ok(
        taken.every((at, index) => index < each.max || at - taken[index - each.max]! >= each.windowMs),
        each.text,
      )
  })
}

test('an account of 50,000 an hour takes kilobytes, however often it is called', () => {
  const windows = [parseWindow('100/s'), parseWindow('50000/h')]
  const before = process.memoryUsage().arrayBuffers
  const rates = Array.from({ length: 100 }, () => createRollingRate(windows, 20))
  for (const rate of rates) for (let call = 0; call < 50_000; call += 1) rate.take(call * 72)
  assert.equal(rates[0]!.freeAt(50_000 * 72), 3_600_000 + 20 + 879, 'a slice after the first one')
  assert.ok((process.memoryUsage().arrayBuffers - before) / rates.length < 25_000)
})
