import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLimiterRecovery } from '../../src/admission/limiter-recovery.ts'
import { someNotification } from '../../src/conformance/store/sample.ts'
import type { TimelineEvent } from '../../src/model.ts'
import type { Policy } from '../../src/policy/policy.ts'
import type { Admission } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { admissionOf } from '../../src/store/admission.ts'

const notification = someNotification()
const subject = { key: 'ada', tenant: notification.tenant, recipient: notification.to.id }
const sent = { at: notification.dueAt + 7, status: 'sending' } as const

interface Setup {
  /** Fields of the notification on record that differ from those of its acceptance. */
  readonly recorded?: Partial<Admission>
  /** Fields of notifications that are on record behind it. */
  readonly others?: readonly Partial<Admission>[]
  readonly live?: () => { readonly events: readonly TimelineEvent[] } | undefined
  /** Called where recipients are looked up; without it they are in memory. */
  readonly onFind?: () => void
  readonly now?: number
}

function setUp({
  recorded = {},
  others = [],
  live = () => undefined,
  onFind,
  now = notification.dueAt,
}: Setup) {
  return createLimiterRecovery({
    store: {
      mayHave: () => true,
      counted: async () => ({
        items: [recorded, ...others].map((fields) => ({ ...admissionOf(notification), ...fields })),
        nextCursor: null,
      }),
    },
    policy: {
      version: 'p1',
      longestWindowMs: 1_000,
      deduplicationWindowMs: 60_000,
      maxDelayMs: 1_000,
      rulesFor: () => [{ subject, rules: [{ stream: 'all' }] }],
    } as unknown as Policy,
    ledger: {
      live: () => {
        const found = live()
        return found && { notification, status: 'sending', ...found }
      },
    },
    recipients: {
      cached: () => (onFind === undefined ? null : undefined),
      async find() {
        onFind?.()
        return null
      },
      findAll: (keys) => keys.map(() => null),
      forget: () => {},
      changes: 0,
    },
    forbiddenHours: { hasHours: () => false, forbidden: () => undefined },
    clock: createVirtualClock(now),
    marginMs: 20,
    isUnsettled: () => false,
  })
}

test('a notification with the right to send counts as sent only when the limits have let it go', async () => {
  for (const [events, at, fired] of [
    [[] as readonly TimelineEvent[], notification.dueAt, false],
    [[sent], sent.at, true],
  ] as const) {
    const { entries } = await setUp({ live: () => ({ events }) })(subject)
    assert.deepEqual(entries, [{ id: notification.id, at, fired, streams: ['all'] }])
  }
})

test('a notification that the record shows as being sent counts as sent now, whichever process sends it', async () => {
  const now = notification.dueAt + 7
  const { entries } = await setUp({ recorded: { status: 'sending' }, now })(subject)
  assert.deepEqual(entries, [{ id: notification.id, at: now, fired: true, streams: ['all'] }])
})

test('a dead letter that came back counts where it may have been sent before, and holds no instant', async () => {
  const { dueAt } = notification
  const recorded = { undecided: true, firedAt: dueAt - 9, suspects: [dueAt - 9] }
  const { entries } = await setUp({ recorded })(subject)
  assert.deepEqual(entries, [{ id: `${notification.id}?0`, at: dueAt - 9, fired: true, streams: ['all'] }])
})

test('a call that is settled while its page of the record is taken counts as sent', async () => {
  let isSettled = false
  const recover = setUp({
    live: () => (isSettled ? undefined : { events: [sent] }),
    // Its commit is answered meanwhile: the ledger knows it no more, and the page is from before.
    onFind() {
      isSettled = true
    },
  })
  const { entries } = await recover(subject)
  assert.deepEqual(entries, [{ id: notification.id, at: sent.at, fired: true, streams: ['all'] }])
})

test('of several with one fingerprint the first that has left holds it, then the first that is decided', async () => {
  const { createdAt } = notification
  const dueAt = createdAt + 60_000
  const holderOf = async (...rows: readonly Partial<Admission>[]): Promise<string | undefined> => {
    const [recorded = {}, ...others] = rows.map((row, index) => ({
      id: `${index}`,
      createdAt,
      dueAt,
      ...row,
    }))
    const { fingerprints } = await setUp({ recorded, others, now: createdAt + 5_000 })(subject)
    // The last one to be set stays.
    return fingerprints.at(-1)?.id
  }
  const left = { status: 'delivered', firedAt: createdAt + 9 } as const
  assert.equal(await holderOf({}, {}), '0')
  assert.equal(await holderOf({}, left, left), '1')
  assert.equal(await holderOf({ status: 'cancelled' }, {}, {}), '1')
  // Accepted while the limits could not be asked: it took no fingerprint then.
  const awaits = { status: 'queued', undecided: true } as const
  assert.equal(await holderOf(awaits, {}, {}), '1')
  assert.equal(await holderOf(awaits, {}, left), '2')
  assert.equal(await holderOf(awaits, awaits), '0')
  assert.equal(await holderOf({ status: 'scheduled', undecided: true }, {}), '0', 'it took one')
})
