/** A try to accept that the server of the limits leaves in the middle: its fingerprint is nobody's, and nobody waits for it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { LimitState } from '../../src/ports.ts'
import { createHarness, second } from '../harness.ts'

type Method = (...args: unknown[]) => unknown

/** Limits in a server that goes away behind the next fingerprint that is taken, and answers again at the end of that. */
function leaving() {
  let isAway = false
  let leaves = false
  const isHeldHere = new Set(['pause', 'resume', 'queueBehind', 'close', 'renew'])
  const guarded =
    (name: string, method: Method): Method =>
    (...args) => {
      if (isAway && !isHeldHere.has(name))
        return Promise.reject(new SluiceError('STATE_UNAVAILABLE', 'Away.', { retryAfterMs: 1_000 }))
      if (leaves && name === 'holdFingerprints') isAway = true
      return method(...args)
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
    isAway: () => isAway,
    answer() {
      leaves = false
      isAway = false
    },
  }
}

test('what was accepted while Redis was away leaves soon after, and so does what came behind it', async () => {
  const { wrapState, leave, isAway, answer } = leaving()
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
  assert.ok(isAway())
  assert.equal(first.undecided, true)
  await harness.runFor(second)
  answer()
  const next = await harness.post({ recipient: 'eve' })
  await harness.runFor(3 * second)
  assert.deepEqual(
    harness.sent().map(({ id }) => id),
    [first.id, next.id],
  )
  await harness.check()
  await harness.stop()
})
