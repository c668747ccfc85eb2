/** Turns in the throttle queue of a tenant that two processes were given: one of them has written it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ThrottleState } from '../../src/ports/tenants.ts'
import { createHarness, type HarnessOptions, second } from '../harness.ts'

/** A gateway whose first turn another process has written: its own commit answers a conflict. */
async function createWrittenElsewhere(parts: HarnessOptions['parts'] = {}) {
  let turned: string | undefined
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: '1/10s', modules: 'unlimited' } } },
    parts,
    wrap: (store) => ({
      ...store,
      async commit(change) {
        const result = await store.commit(change)
        const move = change.moves?.find(({ before }) => before.decision.reason === 'tenant_limit')
        if (turned !== undefined || move === undefined) return result
        turned = move.before.id
        return { applied: false, conflicts: [{ kind: 'notification', key: turned }] }
      },
    }),
  })
  return { harness, turned: () => turned }
}

test('a turn that another process has written stays counted, and its entry leaves the queue', async () => {
  const { harness, turned } = await createWrittenElsewhere()
  await harness.post()
  const waiting = await harness.post()
  await harness.runUntil(waiting.dueAt + second)
  assert.equal(turned(), waiting.id)
  const { turnedAt } = await harness.notification(waiting.id)
  assert.equal(turnedAt, waiting.dueAt)
  const later = await harness.post()
  assert.equal(later.decision.reason, 'tenant_limit', 'the turn counts')
  assert.ok(
    later.dueAt >= turnedAt! + 10 * second,
    `it waits until ${later.dueAt}, not behind an entry of nobody`,
  )
  assert.ok(later.dueAt < turnedAt! + 11 * second)
  await harness.stop()
})

test('a turn that another process has written is not given to the next one while the record is read', async () => {
  const places: ReturnType<ThrottleState['placeOf']>[] = []
  const { harness, turned } = await createWrittenElsewhere({
    wrapThrottle: (state) => ({
      ...state,
      async putBack(tenant, entries) {
        await state.putBack(tenant, entries)
        // An entry that a third process asks for, and that the queue knows no more, takes the first place in it.
        for (const entry of entries) if (entry.id === turned()) places.push(state.placeOf(tenant, entry))
      },
    }),
  })
  await harness.post()
  const waiting = await harness.post()
  await harness.runUntil(waiting.dueAt + second)
  assert.equal(turned(), waiting.id)
  assert.deepEqual(await Promise.all(places), [], 'it stands in the queue at no instant')
  await harness.stop()
})
