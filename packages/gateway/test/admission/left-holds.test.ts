/** A try to accept that the server of the limits leaves in the middle: what it had taken stands in nobody's way. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { LimitState } from '../../src/ports.ts'
import { createHarness, second } from '../harness.ts'

type Method = (...args: unknown[]) => unknown

/** Limits in a server that goes away behind the next call of `last`, whose answer may be lost, and comes back. */
function leaving(last: 'holdFingerprints' | 'reserve', isLost: boolean) {
  let isAway = false
  let leaves = false
  const isHeldHere = new Set(['pause', 'resume', 'queueBehind', 'close', 'renew'])
  const away = () => new SluiceError('STATE_UNAVAILABLE', 'Away.', { retryAfterMs: 1_000 })
  const guarded =
    (name: string, method: Method): Method =>
    async (...args) => {
      if (isAway && !isHeldHere.has(name)) throw away()
      const isLast = leaves && name === last
      if (isLast) isAway = true
      const answer = await method(...args)
      if (isLast && isLost) throw away()
      return answer
    }
  const wrapState = (state: LimitState): LimitState => {
    const methods = Object.entries(state).map(([name, method]) => [
      name,
      typeof method === 'function' ? guarded(name, method as Method) : method,
    ])
    return { ...(Object.fromEntries(methods) as LimitState), mayKeepHolds: true }
  }
  return {
    wrapState,
    leave() {
      leaves = true
    },
    answer() {
      leaves = false
      isAway = false
    },
  }
}

test('what was accepted while Redis was away leaves soon after, and so does what came behind it', async () => {
  const { wrapState, leave, answer } = leaving('holdFingerprints', false)
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'many', for: 'any', max: ['100/h'], over: 'delay' }],
      deduplication: { window: '1h' },
    },
    parts: { wrapState },
  })
  leave()
  const first = await harness.post()
  assert.equal(first.undecided, true)
  await harness.runFor(second)
  answer()
  const next = await harness.post({ recipient: 'eve' })
  await harness.runFor(second)
  assert.deepEqual(
    harness.sent().map(({ id }) => id),
    [first.id, next.id],
  )
  await harness.check()
  await harness.stop()
})

for (const over of ['drop', 'delay'])
  test(`the place of a try that was not accepted does not ${over} the notification that came in its stead`, async () => {
    const { wrapState, leave, answer } = leaving('reserve', true)
    const harness = await createHarness({
      policy: { version: 1, limits: [{ name: 'one', for: 'any', max: ['1/h'], over }] },
      parts: { wrapState },
    })
    leave()
    const { id, undecided } = await harness.post()
    assert.equal(undecided, true)
    await harness.runFor(second)
    answer()
    await harness.runFor(300)
    assert.equal((await harness.notification(id)).status, 'delivered')
    await harness.check()
    await harness.stop()
  })
