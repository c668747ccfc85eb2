/** Flows of holds: one begins while notifications wait, and one ends before its time. */
import assert from 'node:assert/strict'
import { type Harness, hour, minute, second } from '../harness.ts'
import type { Disturbed } from '../interfered-store.ts'
import type { Flow } from '../interference.ts'
import { cancelled, optedOut, postAll } from './flow-writers.ts'
import { areInOrder, newcomer } from './waiting-flows.ts'

const hold = { name: 'all', category: 'product', reason: 'r' } as const
const untilOf = ({ start }: Harness): number => start + 90 * minute

/** Holds that a client was told of, by gateway: the instant of the answer. */
const answered = new WeakMap<object, number>()

async function put({ gateway, clock }: Harness, until: number): Promise<void> {
  await gateway.holds.put({ ...hold, until })
  answered.set(gateway, clock.now())
}

const writers: Flow['writers'] = {
  newcomer,
  cancel: cancelled(1),
  'opt-out': optedOut('b'),
  wake: ({ gateway }) => gateway.gate.saveRecipient({ tenant: 'default', id: 'a', timeZone: 'UTC' }),
  longer: (harness) => harness.gateway.holds.put({ ...hold, until: untilOf(harness) + 10 * minute }),
}

/** Asserts that nothing left between the answer to the hold and its end, and that all left in their order. */
async function areHeld(harness: Harness, ids: readonly string[], disturbed: Disturbed | undefined) {
  const heldAt = answered.get(harness.gateway)
  const isCancelled = disturbed?.event.kind === 'writer' && disturbed.event.name === 'opt-out'
  for (const id of ids) {
    const { timeline } = await harness.notification(id)
    const { status, at } = timeline.at(-1)!
    if (heldAt === undefined || status !== 'delivered' || at < heldAt) continue
    assert.ok(at >= untilOf(harness), `${id} left within the hold`)
  }
  // Notifications of the other recipient are not compared with these.
  if (!isCancelled) await areInOrder(harness, ids.slice(0, 4), 'a')
}

const begins: Flow = {
  name: 'a hold stops those who wait',
  afterMs: 9 * hour,
  options: () => ({
    policy: { version: 1, limits: [{ name: 'few', for: 'any', max: ['1/h'], over: 'delay' }] },
  }),
  // The first leaves at once, the others an hour after each other; the hold ends between them.
  async prepare(harness) {
    const ids = await postAll(harness, [
      ...[0, 1, 2, 3].map(() => ({ recipient: 'a' })),
      { recipient: 'b', sendAt: harness.start + minute },
    ])
    await harness.runFor(second)
    return ids
  },
  async act(harness) {
    await put(harness, untilOf(harness))
    await harness.runFor(second)
  },
  writers,
  lateMsMax: 2 * hour,
  verify: areHeld,
}

const ends: Flow = {
  name: 'a hold ends before its time',
  afterMs: 9 * hour,
  options: begins.options,
  async prepare(harness) {
    await harness.done(harness.gateway.holds.put({ ...hold, until: harness.start + 4 * hour }))
    const ids = await postAll(harness, [
      ...[0, 1, 2, 3].map(() => ({ recipient: 'a' })),
      { recipient: 'b', sendAt: harness.start + minute },
    ])
    await harness.runFor(2 * minute)
    return ids
  },
  async act(harness) {
    await harness.gateway.holds.end(hold.name)
    await harness.runFor(second)
  },
  writers,
  // Where its end is not on record, or another one replaces it, they leave behind that.
  lateMsMax: 6 * hour,
  verify: (harness, ids) => areInOrder(harness, ids.slice(0, 4), 'a'),
}

export const holdFlows: readonly Flow[] = [begins, ends]
