/**
 * A digest that another gateway has put off: whoever closes it gives up the instant that the other one has reserved for it,
 * and has the turn of that instant.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LimitRequest, LimitState } from '../../../src/ports.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'
import { createHarness, type HarnessOptions, minute, second } from '../../harness.ts'

/** A gateway whose limits, of one message in three minutes, another gateway uses as well. */
async function open(options: Pick<HarnessOptions, 'wrap'> = {}) {
  const clock = createVirtualClock(Date.UTC(2026, 10, 29, 12))
  let state: LimitState | undefined
  let asked: LimitRequest | undefined
  const harness = await createHarness({
    ...options,
    clock,
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
          // A digest that is planned is late by this, and stands too close to those behind it.
          async cancel(requests) {
            await new Promise<void>((resolve) => clock.at(clock.now() + 40, resolve))
            return wrapped.cancel(requests)
          },
        }
      },
    },
  })
  const { start, gateway } = harness
  return {
    harness,
    /** Posts a message that leaves, and two items of the same recipient. */
    async post(item: object = {}) {
      await harness.post()
      for (let items = 0; items < 2; items += 1) {
        const { status } = await harness.post({ template: 'new-comment', data: {}, ...item })
        assert.equal(status, 'digesting')
      }
    },
    /** The other gateway found the recipient at the limit, reserved this instant, and put the digest off until then. */
    async putOff(closesAt: number) {
      const [digest] = await gateway.store.dueDigests(start + 60 * minute, 10)
      const later = { ...asked!, id: digest!.id, notBefore: closesAt, waitOnly: true, waited: true }
      const [reservation] = await harness.done(Promise.resolve(state!.reserve([later])))
      assert.deepEqual([reservation!.held, reservation!.at], [true, closesAt])
      const heldAs = {
        module: 'app',
        to: { id: digest!.recipient },
        priority: 'normal',
        actors: [''],
      } as const
      const postponed = { ...digest!, closesAt, heldAs }
      const change = { digests: [{ kind: 'postpone', digest: postponed, left: 2 }] } as const
      assert.deepEqual(await harness.done(gateway.store.commit(change)), { applied: true })
      return digest!
    },
  }
}

test('a digest whose items expire gives up the instant that another gateway has reserved for it', async () => {
  const { harness, post, putOff } = await open()
  const { start, gateway } = harness
  await post({ expiresAt: start + 5 * minute })
  const closesAt = start + 6 * minute
  await putOff(closesAt)
  await harness.runUntil(closesAt + second)
  assert.deepEqual(await gateway.store.dueDigests(start + 60 * minute, 10), [], 'it is closed')
  const next = await harness.post()
  await harness.runFor(second)
  assert.equal((await harness.notification(next.id)).status, 'delivered')
  await harness.stop()
})

test('a digest that another gateway has put off leaves at the instant that is reserved for it', async () => {
  const { harness, post, putOff } = await open()
  const { start } = harness
  await post()
  await putOff(start + 4 * minute)
  const behind = []
  for (let index = 0; index < 3; index += 1) behind.push(await harness.post({ data: { index } }))
  await harness.runUntil(start + 4 * minute + second)
  const counts = harness.sent().map(({ message }) => (message.data as { totalCount?: number })?.totalCount)
  assert.deepEqual(counts, [undefined, 2], 'nobody who waits behind it is in its way')
  await harness.runUntil(start + 20 * minute)
  for (const { id } of behind) assert.equal((await harness.notification(id)).status, 'delivered')
  await harness.stop()
})

test('a digest has its turn again where the change that closes it was refused', async () => {
  let refusals = 0
  const { harness, post, putOff } = await open({
    wrap: (store) => ({
      ...store,
      async commit(change) {
        if (refusals > 0 || !change.digests?.some(({ kind }) => kind === 'close')) return store.commit(change)
        refusals += 1
        return { applied: false, conflicts: [] }
      },
    }),
  })
  const { start } = harness
  await post()
  await putOff(start + 4 * minute)
  for (let index = 0; index < 3; index += 1) await harness.post({ data: { index } })
  // The instant that it had reserved was free for a moment, and the first behind it took that.
  await harness.runUntil(start + 8 * minute)
  const counts = harness.sent().map(({ message }) => (message.data as { totalCount?: number })?.totalCount)
  assert.deepEqual([counts, refusals], [[undefined, undefined, 2], 1])
  await harness.stop()
})
