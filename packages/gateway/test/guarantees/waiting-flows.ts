/**
 * Flows of those who wait for a place: they move up, one is cancelled or expires when nobody of its subject is in memory, a stop cuts
 * a pass short, two passes of one subject begin at once, one notification is decided twice at once.
 */
import assert from 'node:assert/strict'
import { channels } from '../../src/model.ts'
import { densest, type Harness, hour, minute, second } from '../harness.ts'
import type { Disturbed } from '../interfered-store.ts'
import type { Flow } from '../interference.ts'
import { asleep, cancelled, optedOut, postAll } from './flow-writers.ts'

const limited = (max: string) => ({
  version: 1,
  limits: [{ name: 'few', for: 'any', max: [max], over: 'delay' }],
})

/** Somebody new to the same recipient, who stands behind all who wait. */
export async function newcomer({ gateway }: Harness): Promise<void> {
  const content = { subject: 'new', text: 'new' }
  const to = { id: 'a', email: 'a@example.com' }
  const draft = { to, channel: 'email', category: 'product', priority: 'normal', content } as const
  await gateway.gate.admit({ caller: { tenant: 'default', module: 'default' }, drafts: [draft] })
}

const woken = ({ gateway }: Harness): Promise<unknown> =>
  gateway.gate.saveRecipient({ tenant: 'default', id: 'a', timeZone: 'UTC' })

/** Asserts that those who waited were sent in the order of acceptance, and before every newcomer. */
export async function areInOrder(
  harness: Harness,
  ids: readonly string[],
  recipient?: string,
): Promise<void> {
  const all = await Promise.all(ids.map((id) => harness.notification(id)))
  const sent = all.filter(({ status }) => status === 'delivered')
  const at = sent.map(({ timeline }) => timeline.at(-1)!.at)
  assert.deepEqual(
    at,
    at.toSorted((one, other) => one - other),
    'the earliest accepted has the earliest place',
  )
  const { items } = await harness.gateway.store.list({ tenant: 'default', limit: 100 })
  const last = items.find(
    ({ id, to, timeline }) =>
      !ids.includes(id) &&
      (recipient === undefined || to.id === recipient) &&
      timeline.at(-1)?.status === 'delivered',
  )
  if (last !== undefined)
    assert.ok(last.timeline.at(-1)!.at >= Math.max(...at), 'no newcomer is before those who wait')
}

const movingUp: Flow = {
  name: 'those who wait move up',
  options: () => ({ policy: limited('1/h') }),
  prepare: (harness) =>
    postAll(
      harness,
      [0, 1, 2, 3].map(() => ({ recipient: 'a' })),
    ),
  async act(harness, ids) {
    await cancelled(1)(harness, ids)
    await harness.runFor(second)
  },
  writers: {
    cancel: cancelled(2),
    'cancel the same': cancelled(1),
    sleep: asleep('a'),
    wake: woken,
    newcomer,
  },
  // One is cancelled in vain where the process ends, and somebody sleeps for an hour.
  lateMsMax: 2 * hour,
  verify: (harness, ids) => areInOrder(harness, ids),
}

const four = (harness: Harness, more: object = {}): Promise<readonly string[]> =>
  postAll(
    harness,
    [0, 1, 2, 3].map((index) => ({ recipient: 'a', ...(index === 1 ? more : {}) })),
  )

const afterRestart = {
  earlier: () => ({ policy: limited('1/h') }),
  options: () => ({ policy: limited('1/h') }),
}

const cancelledAfterRestart: Flow = {
  name: 'one who waits is cancelled after a restart',
  ...afterRestart,
  prepare: (harness) => four(harness),
  async act(harness, ids) {
    await cancelled(1)(harness, ids)
    await harness.gateway.startStages()
    await harness.runFor(second)
  },
  writers: { newcomer, 'cancel another': cancelled(2), sleep: asleep('a'), wake: woken },
  lateMsMax: 2 * hour,
  verify: (harness, ids) => areInOrder(harness, ids),
}

const expiresAfterRestart: Flow = {
  name: 'one who waits expires after a restart',
  ...afterRestart,
  // It held an instant before its end, and was not carried in time.
  prepare: (harness) => four(harness, { expiresAt: harness.start + hour + minute }),
  async act(harness) {
    await harness.gateway.startStages()
    await harness.runFor(second)
  },
  writers: { newcomer, cancel: cancelled(1), 'cancel another': cancelled(2), sleep: asleep('a') },
  lateMsMax: 2 * hour,
  verify: (harness, ids) => areInOrder(harness, ids),
}

const twoPasses: Flow = {
  name: 'two passes of one subject begin at once',
  options: () => ({ policy: limited('1/h') }),
  prepare: (harness) =>
    postAll(
      harness,
      [0, 1, 2, 3, 4].map(() => ({ recipient: 'a' })),
    ),
  async act(harness, ids) {
    await Promise.allSettled([cancelled(1)(harness, ids), cancelled(3)(harness, ids), woken(harness)])
    await harness.runFor(second)
  },
  writers: { newcomer, cancel: cancelled(2), wake: woken, 'opt-out': optedOut('a') },
  // Where the process ends both are cancelled in vain, and leave with the third hour and its margin.
  lateMsMax: 3 * hour + second,
  verify: (harness, ids) => areInOrder(harness, ids),
}

/** Calls to the provider of the run at hand, which goes through two lives where a process ends. */
let calls: number[] = []
const windowMs = 10 * minute

const decidedTwice: Flow = {
  name: 'one notification is decided twice at once',
  options() {
    calls = []
    return {
      policy: limited('1/10min'),
      providers: (clock) => [
        {
          name: 'sandbox',
          idempotent: false,
          channels,
          async send() {
            calls.push(clock.now())
            return calls.length === 1 ? { outcome: 'unknown', detail: 'reset' } : { outcome: 'delivered' }
          },
          close: () => Promise.resolve(),
        },
      ],
    }
  },
  async prepare(harness) {
    const ids = await postAll(harness, [{ recipient: 'a' }])
    await harness.runFor(windowMs + second)
    return ids
  },
  async act(harness) {
    await harness.gateway.gate.redrive({ all: true })
    await newcomer(harness)
    await harness.runFor(second)
  },
  writers: {
    redrive: ({ gateway }) => gateway.gate.redrive({ all: true }),
    cancel: cancelled(0),
    wake: woken,
    newcomer,
  },
  lateMsMax: hour,
  async verify(_harness, _ids, disturbed: Disturbed | undefined) {
    // The sendings of a process that ended count for the next one, which learns of them from the record.
    if (disturbed?.event.kind === 'refusal') return
    assert.ok(densest(calls, windowMs) <= 1, `no window is over: ${calls.join(', ')}`)
  },
}

export const waitingFlows: readonly Flow[] = [
  movingUp,
  cancelledAfterRestart,
  expiresAfterRestart,
  twoPasses,
  decidedTwice,
]
