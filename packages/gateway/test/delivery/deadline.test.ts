import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDeadlines } from '../../src/delivery/deadline.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

test('calls of one instant share a signal, which aborts when their time is over and not before', async () => {
  const clock = createVirtualClock(0)
  const deadlineOf = createDeadlines(clock)
  const [first, second, longer] = [deadlineOf(100), deadlineOf(100), deadlineOf(200)]
  assert.equal(first.signal, second.signal)
  assert.notEqual(first.signal, longer.signal)
  first.end()
  await clock.runUntil(99)
  assert.equal(second.signal.aborted, false)
  await clock.runUntil(100)
  assert.deepEqual([second.signal.aborted, longer.signal.aborted], [true, false])
  await clock.runUntil(200)
  assert.equal(longer.signal.aborted, true)
})

test('when all have ended no timer is left, and one more of the same instant has its time', async () => {
  const clock = createVirtualClock(0)
  const deadlineOf = createDeadlines(clock)
  deadlineOf(100).end()
  assert.equal(clock.next(), undefined)
  const again = deadlineOf(100)
  await clock.runUntil(100)
  assert.equal(again.signal.aborted, true)
})

test('a call that has no time at all does not end one that begins at the same instant', async () => {
  const clock = createVirtualClock(0)
  const deadlineOf = createDeadlines(clock)
  const none = deadlineOf(0)
  await clock.runUntil(0)
  assert.equal(none.signal.aborted, true)
  assert.equal(deadlineOf(0).signal.aborted, false)
})
