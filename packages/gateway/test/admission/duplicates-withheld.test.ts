/** Duplicates that were accepted around a loss of the server of the limits: one of them leaves. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { duplicatesWithheld } from '../../src/admission/duplicates-withheld.ts'
import type { Notification, Status } from '../../src/model.ts'
import type { Policy } from '../../src/policy/policy.ts'
import type { FingerprintHold } from '../../src/ports.ts'
import type { ReservationRequest } from '../../src/stages.ts'

const now = 1_000_000
const minute = 60_000

/** Fires the notification `id` while the one that `holder` names holds its fingerprint, in this status on record. */
async function fireBeside(
  id: string,
  holder: { readonly id: string; readonly status?: Status; readonly since?: number } | undefined,
  more: Partial<Notification> = {},
) {
  const asked: ReservationRequest[] = []
  const taken: (string | undefined)[] = []
  const limiter = duplicatesWithheld(
    {
      async fire(requests: readonly ReservationRequest[]) {
        asked.push(...requests)
        return requests.map(() => ({ fired: false, at: now, isDuplicate: true }))
      },
    } as unknown as Parameters<typeof duplicatesWithheld>[0],
    {
      state: {
        mayKeepHolds: true,
        fingerprintHolder: async () => holder && { since: now, ...holder },
        async holdFingerprints(holds: readonly FingerprintHold[]) {
          taken.push(...holds.map(({ inPlaceOf }) => inPlaceOf))
          return holds.map(() => true)
        },
      },
      store: {
        notification: async () =>
          holder?.status && ({ id: holder.id, status: holder.status } as unknown as Notification),
      },
      policy: {
        deduplicationWindowMs: minute,
        version: 'p1',
        rulesFor: () => [{ subject: { tenant: 'acme', key: 'acme/ada', recipient: 'ada' }, rules: [] }],
      } as unknown as Policy,
      clock: { now: () => now },
    },
  )
  const notification = {
    id,
    tenant: 'acme',
    fingerprint: 'f',
    createdAt: now - 5,
    priority: 'normal',
    decision: { policyVersion: 'p1' },
    ...more,
  } as unknown as Notification
  const [{ isDuplicate = false, at } = { at: 0 }] = await limiter.fire([{ notification, recipient: null }])
  return { isDuplicate, at, taken, print: asked[0]!.print }
}

test('the second is suppressed while the first is on its way, or has left', async () => {
  for (const status of [
    'scheduled',
    'queued',
    'digesting',
    'sending',
    'dead',
    'delivered',
    'merged',
  ] as const) {
    const { isDuplicate, taken } = await fireBeside('2', { id: '1', status })
    assert.deepEqual([isDuplicate, taken], [true, []], status)
  }
})

test('the first takes the fingerprint of a second that has not left, and waits while it may leave', async () => {
  for (const status of ['scheduled', 'queued', 'dead', 'cancelled', 'suppressed', 'expired'] as const) {
    const { isDuplicate, taken } = await fireBeside('1', { id: '2', status })
    assert.deepEqual([isDuplicate, taken], [false, ['2']], status)
  }
  const { isDuplicate, at, taken } = await fireBeside('1', { id: '2', status: 'sending' })
  assert.deepEqual([isDuplicate, at > now, taken], [false, true, []])
  assert.equal((await fireBeside('1', { id: '2', status: 'delivered' })).isDuplicate, true)
})

test('a holder that is not on record is waited for, and then nobody', async () => {
  const early = await fireBeside('2', { id: '1', since: now - 14_000 })
  assert.deepEqual([early.isDuplicate, early.at > now, early.taken], [false, true, []])
  const late = await fireBeside('2', { id: '1', since: now - 15_000 })
  assert.deepEqual([late.isDuplicate, late.at, late.taken], [false, now, ['1']])
  assert.equal((await fireBeside('2', undefined)).isDuplicate, false)
})

test('what took no fingerprint under this policy is not looked at', async () => {
  assert.deepEqual((await fireBeside('1', undefined)).print, {
    fingerprint: 'f',
    acceptedAt: now - 5,
    windowMs: minute,
  })
  assert.equal((await fireBeside('1', undefined, { priority: 'critical' })).print, undefined)
  assert.equal((await fireBeside('1', undefined, { fingerprint: '' })).print, undefined)
  const decision = { policyVersion: 'p0' } as Notification['decision']
  assert.equal((await fireBeside('1', undefined, { decision })).print, undefined)
})
