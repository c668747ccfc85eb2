import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLimiterRecovery } from '../../src/admission/limiter-recovery.ts'
import { someNotification } from '../../src/conformance/store/sample.ts'
import type { TimelineEvent } from '../../src/model.ts'
import type { Policy } from '../../src/policy/policy.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { admissionOf } from '../../src/store/admission.ts'

test('a notification with the right to send counts as sent only when the limits have let it go', async () => {
  const notification = someNotification()
  const subject = { key: 'ada', tenant: notification.tenant, recipient: notification.to.id }
  const sent = { at: notification.dueAt + 7, status: 'sending' } as const
  for (const [events, at, fired] of [
    [[] as readonly TimelineEvent[], notification.dueAt, false],
    [[sent], sent.at, true],
  ] as const) {
    const recover = createLimiterRecovery({
      store: {
        mayHave: () => true,
        counted: async () => ({ items: [admissionOf(notification)], nextCursor: null }),
      },
      policy: {
        version: 'p1',
        longestWindowMs: 1_000,
        maxDelayMs: 1_000,
        rulesFor: () => [{ subject, rules: [{ stream: 'all' }] }],
      } as unknown as Policy,
      ledger: { live: () => ({ notification, status: 'sending', events }) },
      recipients: {
        cached: () => null,
        find: async () => null,
        findAll: (keys) => keys.map(() => null),
        forget: () => {},
        changes: 0,
      },
      forbiddenHours: { hasHours: () => false, forbidden: () => undefined },
      clock: createVirtualClock(notification.dueAt),
      marginMs: 20,
      isUnsettled: () => false,
    })
    const { entries } = await recover(subject)
    assert.deepEqual(entries, [{ id: notification.id, at, fired, streams: ['all'] }])
  }
})

test('a notification that the record shows as being sent counts as sent now, whichever process sends it', async () => {
  const notification = someNotification()
  const subject = { key: 'ada', tenant: notification.tenant, recipient: notification.to.id }
  const now = notification.dueAt + 7
  const recover = createLimiterRecovery({
    store: {
      mayHave: () => true,
      counted: async () => ({
        items: [{ ...admissionOf(notification), status: 'sending' }],
        nextCursor: null,
      }),
    },
    policy: {
      version: 'p1',
      longestWindowMs: 1_000,
      maxDelayMs: 1_000,
      rulesFor: () => [{ subject, rules: [{ stream: 'all' }] }],
    } as unknown as Policy,
    ledger: { live: () => undefined },
    recipients: {
      cached: () => null,
      find: async () => null,
      findAll: (keys) => keys.map(() => null),
      forget: () => {},
      changes: 0,
    },
    forbiddenHours: { hasHours: () => false, forbidden: () => undefined },
    clock: createVirtualClock(now),
    marginMs: 20,
    isUnsettled: () => false,
  })
  const { entries } = await recover(subject)
  assert.deepEqual(entries, [{ id: notification.id, at: now, fired: true, streams: ['all'] }])
})

test('a call that is settled while its page of the record is taken counts as sent', async () => {
  const notification = someNotification()
  const subject = { key: 'ada', tenant: notification.tenant, recipient: notification.to.id }
  const sent = { at: notification.dueAt + 7, status: 'sending' } as const
  let isSettled = false
  const recover = createLimiterRecovery({
    store: {
      mayHave: () => true,
      counted: async () => ({ items: [admissionOf(notification)], nextCursor: null }),
    },
    policy: {
      version: 'p1',
      longestWindowMs: 1_000,
      maxDelayMs: 1_000,
      rulesFor: () => [{ subject, rules: [{ stream: 'all' }] }],
    } as unknown as Policy,
    ledger: {
      live: () => (isSettled ? undefined : { notification, status: 'sending', events: [sent] }),
    },
    recipients: {
      cached: () => undefined,
      async find() {
        // Its commit is answered meanwhile: the ledger knows it no more, and the page is from before.
        isSettled = true
        return null
      },
      findAll: (keys) => keys.map(() => null),
      forget: () => {},
      changes: 0,
    },
    clock: createVirtualClock(notification.dueAt),
    forbiddenHours: { hasHours: () => false, forbidden: () => undefined },
    marginMs: 20,
    isUnsettled: () => false,
  })
  const { entries } = await recover(subject)
  assert.deepEqual(entries, [{ id: notification.id, at: sent.at, fired: true, streams: ['all'] }])
})
