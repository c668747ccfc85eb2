/** A digest that another gateway has put off: whoever closes it gives up the instant that the other one has reserved for it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LimitRequest, LimitState } from '../../../src/ports.ts'
import { createHarness, minute, second } from '../../harness.ts'

test('a digest whose items expire gives up the instant that another gateway has reserved for it', async () => {
  let state: LimitState | undefined
  let asked: LimitRequest | undefined
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', max: ['1/3min'], over: 'delay' }],
      digests: [
        {
          name: 'news',
          for: { template: 'new-comment' },
          window: '10s',
          minItems: 2,
          maxItems: 4,
          template: 'activity-digest',
        },
      ],
    },
    parts: {
      wrapState(wrapped) {
        state = wrapped
        return {
          ...wrapped,
          reserve(requests) {
            asked ??= requests[0]
            return wrapped.reserve(requests)
          },
        }
      },
    },
  })
  const { start, gateway } = harness
  await harness.post()
  const item = { template: 'new-comment', data: {}, expiresAt: start + 5 * minute }
  for (let items = 0; items < 2; items += 1) assert.equal((await harness.post(item)).status, 'digesting')

  // The other gateway found the recipient at the limit, reserved the next instant, and put the digest off until then.
  const [digest] = await gateway.store.dueDigests(start + minute, 10)
  const closesAt = start + 6 * minute
  const later = { ...asked!, id: digest!.id, notBefore: closesAt, patient: true, waited: true }
  const [reservation] = await harness.done(Promise.resolve(state!.reserve([later])))
  assert.deepEqual([reservation!.held, reservation!.at], [true, closesAt])
  const change = { digests: [{ kind: 'postpone', digest: { ...digest!, closesAt }, left: 2 }] } as const
  const put = await harness.done(gateway.store.commit(change))
  assert.deepEqual(put, { applied: true })

  await harness.runUntil(closesAt + second)
  assert.deepEqual(await gateway.store.dueDigests(start + 60 * minute, 10), [], 'it is closed')
  const next = await harness.post()
  await harness.runFor(second)
  assert.equal((await harness.notification(next.id)).status, 'delivered')
  await harness.stop()
})
