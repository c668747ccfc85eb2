/** A notification that finds its fingerprint taken: by one that is on record, or by one that never comes there. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryState } from '../../src/adapters/state/memory.ts'
import type { Candidate } from '../../src/admission/candidate.ts'
import { createDuplicates } from '../../src/admission/duplicates.ts'
import type { Notification, Status } from '../../src/model.ts'
import type { Policy } from '../../src/policy/policy.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { withUndo } from '../../src/undo.ts'

const subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const windowMs = 3_600_000

/** Another process holds the fingerprint of `held` under this id. Its notification is on record with the status, if any. */
async function heldBy(
  holder: string,
  { held = 'f', status, failing }: { held?: string; status?: Status; failing?: string } = {},
) {
  const clock = createVirtualClock(1_000_000)
  const state = createMemoryState({
    clock,
    marginMs: 0,
    recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
  })
  await state.holdFingerprints([{ subject, fingerprint: held, id: holder, windowMs }])
  const duplicates = createDuplicates({
    policy: {
      deduplicationWindowMs: windowMs,
      rulesFor: () => [{ subject, rules: [] }],
    } as unknown as Policy,
    state: {
      ...state,
      mayKeepHolds: true,
      async fingerprintHolder(hold) {
        if (hold.fingerprint === failing) throw new Error('no answer')
        return state.fingerprintHolder(hold)
      },
    },
    limiter: { takeBack: async () => {} },
    store: {
      notification: async () =>
        status === undefined ? undefined : ({ id: holder, priority: 'normal', status } as Notification),
    },
    clock,
  })
  /** Suppresses what is a duplicate of notifications with these ids and fingerprints; tells which took theirs. */
  async function suppress(fingerprints: Readonly<Record<string, string>>) {
    const candidates = Object.entries(fingerprints).map(
      ([id, fingerprint]) => ({ notification: { id, fingerprint } }) as Candidate,
    )
    const claimed = await withUndo(assert.fail, (undo) =>
      duplicates.suppress(candidates, { now: clock.now(), policyVersion: 'v', undo }),
    )
    return claimed.map(({ notification }) => notification.id)
  }
  const heldNow = () => state.fingerprintHolder({ subject, fingerprint: held })
  return { clock, duplicates, heldNow, state, suppress }
}

for (const [holder, order] of [
  ['1', 'an earlier'],
  ['3', 'a later'],
] as const) {
  test(`one notification waits 15 s for ${order} one that is not on record, and takes its fingerprint`, async () => {
    const { clock, suppress } = await heldBy(holder)
    let taken: readonly string[] | undefined
    void suppress({ 2: 'f' }).then((ids) => {
      taken = ids
    })
    await clock.runUntil(clock.now() + 14_900)
    assert.equal(taken, undefined)
    await clock.runUntil(clock.now() + 200)
    assert.deepEqual(taken, ['2'])
  })

  test(`one notification is a duplicate of ${order} one that is on record`, async () => {
    const { suppress } = await heldBy(holder, { status: 'queued' })
    assert.deepEqual(await suppress({ 2: 'f' }), [])
  })
}

test('one that a killed process had cancelled, and not released, is no first', async () => {
  const { suppress } = await heldBy('1', { status: 'cancelled' })
  assert.deepEqual(await suppress({ 2: 'f' }), ['2'])
})

for (const [status, stays] of [
  ['delivered', true],
  ['queued', true],
  ['cancelled', false],
] as const)
  test(`a try to decide one on record that is ${status} by now ${stays ? 'leaves it' : 'releases'} its fingerprint`, async () => {
    const { duplicates, heldNow } = await heldBy('1', { status })
    await withUndo(assert.fail, async (undo) => {
      const each = { notification: { id: '1', fingerprint: 'f' } } as Candidate
      await duplicates.suppress([each], { now: 0, policyVersion: 'v', undo, again: false })
    })
    assert.equal((await heldNow())?.id, stays ? '1' : undefined)
  })

test('a batch does not wait for a later one, which may wait for it', async () => {
  const { suppress } = await heldBy('4')
  assert.deepEqual(await suppress({ 2: 'f', 3: 'g' }), ['3'])
})

test('a batch of which one cannot be asked takes nothing any more when the fingerprints are given back', async () => {
  const { clock, state, heldNow, suppress } = await heldBy('1', { failing: 'g' })
  await state.holdFingerprints([{ subject, fingerprint: 'g', id: '1', windowMs }])
  const failed = assert.rejects(suppress({ 2: 'f', 3: 'g' }), /no answer/)
  await clock.runUntil(clock.now() + 20_000)
  await failed
  assert.equal((await heldNow())?.id, '1', 'not taken by a try that has failed')
})
