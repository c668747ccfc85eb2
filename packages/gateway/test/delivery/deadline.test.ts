import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDeadlines } from '../../src/delivery/deadline.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

test('calls of one instant share a signal, which aborts at their timeout and not before', async () => {
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

test('no timer is left when all calls have ended, and another call of the same instant has its full timeout', async () => {
  const clock = createVirtualClock(0)
  const deadlineOf = createDeadlines(clock)
  deadlineOf(100).end()
  assert.equal(clock.next(), undefined)
  const again = deadlineOf(100)
  await clock.runUntil(100)
  assert.equal(again.signal.aborted, true)
})

test('a call with a timeout of zero does not abort another call of the same instant', async () => {
  const clock = createVirtualClock(0)
  const deadlineOf = createDeadlines(clock)
  const none = deadlineOf(0)
  await clock.runUntil(0)
  assert.equal(none.signal.aborted, true)
  assert.equal(deadlineOf(0).signal.aborted, false)
})
