/** The place of a try that met a server of the limits that is away: it is released when the server answers again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { createHarness, type Harness, hour, second } from '../harness.ts'

const policy = { version: 1, limits: [{ name: 'few', for: 'any', max: ['1/h'], over: 'delay' }] }

for (const [awayMs, when] of [
  [2_550, 'before'],
  [3_000, 'while'],
] as const)
  test(`one that was accepted while the limits could not be asked does not wait for the place of its first try, decided ${when} that is released`, async () => {
    let awayUntil = 0
    let questions = 0
    /** The first question is worked and its answer lost, as where the server stands still for a moment; the others are not. */
    const whileAway = async <Answer>(ask: () => Promise<Answer>): Promise<Answer> => {
      if (harness.clock.now() >= awayUntil) return ask()
      questions += 1
      if (questions === 1) await ask()
      throw new SluiceError('STATE_UNAVAILABLE', 'It does not answer.', { retryAfterMs: 1_000 })
    }
    const harness: Harness = await createHarness({
      policy,
      parts: {
        wrapState: (state) => ({
          ...state,
          reserve: (requests) => whileAway(() => state.reserve(requests)),
          cancel: (requests) => whileAway(() => state.cancel(requests)),
        }),
      },
    })
    awayUntil = harness.clock.now() + awayMs
    const posted = await harness.post()
    assert.equal(posted.decision.reason, 'state_unavailable')
    await harness.runFor(10 * second)
    assert.ok(questions > 1)
    const [sent] = harness.sent()
    assert.equal(
      sent?.id,
      posted.id,
      `it waits until ${(await harness.notification(posted.id)).dueAt - harness.start} ms`,
    )
    await harness.runFor(hour)
    await harness.check()
    await harness.stop()
  })
