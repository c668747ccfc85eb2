/** Moves up that were made in the limits and not written: the notification moves up once more, soon. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MovingUp } from '../../src/admission/moving-up.ts'
import { SluiceError } from '../../src/errors.ts'
import type { LimitState } from '../../src/ports.ts'
import { createHarness, minute, second } from '../harness.ts'

const policies = {
  'of its recipient': [{ name: 'one', for: 'any', max: ['1/h'], over: 'delay' }],
  'of two subjects': [
    { name: 'one', for: 'any', max: ['1/h'], over: 'delay' },
    { name: 'tenant', for: 'any', per: ['tenant'], max: ['1/h'], over: 'delay' },
  ],
}

for (const [name, limits] of Object.entries(policies))
  for (const isDue of [false, true])
    test(`one whose move up is not answered moves up within three seconds, in the limits ${name}, ${isDue ? 'to now' : 'to an instant to come'}`, async () => {
      let losses = 0
      const wrapState = (state: LimitState): LimitState => ({
        ...state,
        async advance(...asked) {
          const advanced = await state.advance(...asked)
          if (advanced === undefined || losses > 0) return advanced
          losses += 1
          await state.resume(advanced.freed)
          throw new SluiceError('STATE_UNAVAILABLE', 'The answer is lost.', { retryAfterMs: 1_000 })
        },
      })
      const harness = await createHarness({ parts: { wrapState }, policy: { version: 1, limits } })
      if (!isDue) await harness.post()
      const [waiting, behind] = [
        await harness.post(isDue ? { sendAt: harness.start + 30 * minute } : {}),
        await harness.post(),
      ]
      assert.ok(behind.dueAt > waiting.dueAt)
      await harness.done(harness.gateway.gate.cancel('default', waiting.id))
      await harness.runFor(3 * second)
      assert.equal(losses, 1)
      const { dueAt, status } = await harness.notification(behind.id)
      if (isDue) assert.equal(status, 'delivered')
      else assert.equal(dueAt, waiting.dueAt)
      await harness.stop()
    })

for (const [name, limits] of Object.entries(policies))
  for (const isLost of [false, true])
    test(`one that a killed process has moved up, and not written, moves up soon, in the limits ${name}${isLost ? ', also where an answer is lost' : ''}`, async () => {
      let losses = 0
      let others: LimitState | undefined
      /** The question of the process that will be killed. */
      let moving: Parameters<LimitState['advance']> | undefined
      const wrapState = (state: LimitState): LimitState => {
        others = state
        return {
          ...state,
          mayKeepHolds: true,
          async adopt(...asked) {
            const put = await state.adopt(...asked)
            if (!isLost || losses > 0) return put
            losses += 1
            throw new SluiceError('STATE_UNAVAILABLE', 'The answer is lost.')
          },
          async advance(...asked) {
            if (others === undefined) return state.advance(...asked)
            moving = asked
            return undefined
          },
        }
      }
      const harness = await createHarness({ parts: { wrapState }, policy: { version: 1, limits } })
      const state = others!
      await harness.post()
      const [waiting, behind] = [await harness.post(), await harness.post()]
      await harness.done(harness.gateway.gate.cancel('default', waiting.id))
      const advanced = await state.advance(...moving!)
      assert.equal(advanced?.at, waiting.dueAt)
      await state.resume(advanced.freed)
      others = undefined
      await harness.runFor(minute)
      assert.equal((await harness.notification(behind.id)).dueAt, behind.dueAt)
      const gate = harness.gateway.gate as unknown as Pick<MovingUp, 'walkAgain'>
      gate.walkAgain('death')
      await harness.runFor(3 * second)
      assert.equal((await harness.notification(behind.id)).dueAt, waiting.dueAt)
      assert.equal(losses, isLost ? 1 : 0)
      await harness.stop()
    })
