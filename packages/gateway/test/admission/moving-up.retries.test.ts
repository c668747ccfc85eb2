/** Waiting notifications move up behind failures of the limits' state, with one try for all failures of a subject. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { createHarness, hour, second } from '../harness.ts'

test('a subject is tried again once for many failures, and all who wait move up', async () => {
  let isAway = false
  let pauses = 0
  const harness = await createHarness({
    policy: {
      version: 1,
      maxDelay: '30d',
      limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'delay' }],
    },
    parts: {
      wrapState: (state) => ({
        ...state,
        pause(subjects) {
          pauses += 1
          return state.pause(subjects)
        },
        async waiting(...asked) {
          if (isAway) throw new SluiceError('STATE_UNAVAILABLE', 'It is away.')
          return state.waiting(...asked)
        },
      }),
    },
  })
  const all = await harness.postMany(Array.from({ length: 60 }, () => ({})))
  isAway = true
  for (const { id } of all.slice(1, 51)) await harness.done(harness.gateway.gate.cancel('default', id))
  await harness.runFor(20 * second)
  isAway = false
  pauses = 0
  await harness.runFor(20 * second)
  assert.ok(pauses <= 3, `${pauses} pauses behind that`)
  for (const [index, { id }] of all.slice(51).entries()) {
    const { dueAt } = await harness.notification(id)
    assert.equal(Math.round((dueAt - harness.start) / hour), index + 1, `the ${index}th`)
  }
  await harness.stop()
})
