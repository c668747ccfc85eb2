import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { DepartureLine } from '../../src/admission/departure-line.ts'
import { testSeed } from '../harness.ts'

const minute = 60_000
const room = (max = 1_000) => ({ taken: 0, max })

test('departures pass at the rate, first in, first out, and an idle hour saves up one', () => {
  const line = new DepartureLine(0, 2, room())
  const ids = Array.from({ length: 6 }, (_, index) => `n${index}`)
  const now = 60 * minute
  assert.deepEqual(
    ids.map((id) => line.enter(id, now)),
    [true, false, false, false, false, false],
  )
  assert.deepEqual(
    ids.map((id) => (line.waitsUntil(id, now) ?? now) - now),
    [0, 0.5, 1, 1.5, 2, 2.5].map((minutes) => minutes * minute),
  )
  assert.equal(line.waitsUntil('newcomer', now)! - now, 3 * minute)
})

test('a place that was left gives its turn to nobody, and one without room waits behind the last', () => {
  const taken = room(2)
  const line = new DepartureLine(0, 1, taken)
  for (const id of ['a', 'b', 'c']) assert.equal(line.enter(id, 0), false)
  assert.equal(taken.taken, 2)
  assert.equal(line.waitsUntil('c', 0), 3 * minute)
  line.leave('a')
  assert.equal(line.enter('c', 0), false)
  assert.deepEqual([line.waitsUntil('b', 0), line.waitsUntil('c', 0)], [2 * minute, 3 * minute])
  line.close()
  assert.equal(taken.taken, 0)
})

test('two lines with half a rate each let pass as many as one, and the common beginning at the whole rate in both', () => {
  const lines = [new DepartureLine(0, 6, room()), new DepartureLine(0, 6, room())]
  for (const line of lines) {
    line.setRate(0, 6, 2)
    for (const id of ['a', 'b', 'c']) line.add(id, 0)
    line.shareNumbers()
  }
  for (const [index, line] of lines.entries()) for (const n of [1, 2, 3]) line.add(`${index}${n}`, 0)
  const waits = (id: string) => lines.map((line) => line.waitsUntil(id, 0)! / minute)
  assert.deepEqual(['a', 'b', 'c'].map(waits), [
    [1 / 6, 1 / 6],
    [2 / 6, 2 / 6],
    [3 / 6, 3 / 6],
  ])
  // Both together let six a minute pass.
  const apart = [1, 2, 3].map((n) => lines.map((line, index) => line.waitsUntil(`${index}${n}`, 0)! / minute))
  assert.deepEqual(apart, [
    [5 / 6, 5 / 6],
    [7 / 6, 7 / 6],
    [9 / 6, 9 / 6],
  ])
  // The clock runs as it was told.
  for (const line of lines) {
    assert.equal(line.waitsUntil('c', 0.25 * minute), minute / 2)
    assert.equal(line.waitsUntil('nobody', minute), 110_000)
  }
})

test('a place whose notification might have passed a minute ago is given up, and no other', () => {
  const taken = room()
  const line = new DepartureLine(0, 1, taken)
  for (const id of ['a', 'b', 'c', 'd']) line.add(id, 0)
  line.forgetPassed(2 * minute)
  assert.equal(taken.taken, 4)
  line.forgetPassed(2.5 * minute)
  assert.equal(taken.taken, 4)
  line.forgetPassed(3 * minute)
  assert.equal(taken.taken, 2)
  assert.equal(line.enter('c', 3 * minute), true)
})

test('whatever the rates and arrivals, nobody overtakes, none passes before its promise, and no span has more than its rate', () => {
  const step = fc.record({
    afterMs: fc.integer({ min: 0, max: 90_000 }),
    perMinute: fc.option(fc.double({ min: 1, max: 60, noNaN: true }), { nil: undefined }),
    arrive: fc.integer({ min: 0, max: 3 }),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 60 }), (steps) => {
      let now = 0
      let rate = 10
      const line = new DepartureLine(now, rate, room())
      const waiting: { readonly id: string; promisedAt: number }[] = []
      const left: string[] = []
      let arrived = 0
      /** The departures that the rates have admitted, computed apart. */
      let admitted = 0
      function pass(): void {
        for (const each of [...waiting]) {
          if (!line.enter(each.id, now)) continue
          assert.ok(now >= each.promisedAt, `${each.id} at ${now}, promised ${each.promisedAt}`)
          left.push(each.id)
          waiting.splice(waiting.indexOf(each), 1)
          line.leave(each.id)
        }
      }
      for (const { afterMs, perMinute, arrive } of steps) {
        now += afterMs
        admitted += (afterMs * rate) / minute
        pass()
        if (perMinute !== undefined) {
          rate = perMinute
          line.setRate(now, rate)
        }
        for (let count = 0; count < arrive; count += 1) {
          const id = `n${arrived}`
          arrived += 1
          line.enter(id, now)
          waiting.push({ id, promisedAt: line.waitsUntil(id, now) ?? now })
        }
        pass()
        assert.ok(left.length <= admitted + 1, `${left.length} of ${admitted}`)
      }
      for (let rounds = 0; waiting.length > 0 && rounds < 500; rounds += 1) {
        now = Math.max(now + 1, line.waitsUntil(waiting[0]!.id, now) ?? now)
        pass()
      }
      assert.equal(waiting.length, 0)
      assert.deepEqual(
        left,
        Array.from({ length: arrived }, (_, index) => `n${index}`),
      )
    }),
    { seed: testSeed, numRuns: 200 },
  )
})
