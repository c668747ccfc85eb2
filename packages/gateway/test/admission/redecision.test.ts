/** Deciding stored notifications anew: a commit that is always refused, and a count that another writer has fired. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limit } from '@sluice/limits'
import { createMemoryState } from '../../src/adapters/state/memory.ts'
import type { Change, Clock, Store } from '../../src/ports.ts'
import { createHarness, hour, minute, second } from '../harness.ts'

test('a redecision whose commit is always refused is retried with back-off, and nothing is lost', async () => {
  let refused: string | undefined
  let tries = 0
  const refuses = ({ moves = [] }: Change): boolean => moves.some(({ before }) => before.id === refused)
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: '1/min', modules: 'unlimited' } } },
    wrap: (store: Store) => ({
      ...store,
      async commit(change) {
        if (!refuses(change)) return store.commit(change)
        tries += 1
        return { applied: false, conflicts: [{ kind: 'notification', key: refused! }] }
      },
    }),
  })
  await harness.post()
  const { id, dueAt } = await harness.post()
  refused = id
  await harness.runUntil(dueAt + hour)
  assert.ok(tries > 3, `it is tried again: ${tries} times`)
  assert.ok(tries < 80, `with back-off: ${tries} times in an hour`)
  refused = undefined
  await harness.runFor(2 * minute)
  assert.equal((await harness.notification(id)).status, 'delivered')
  await harness.check()
  await harness.stop()
})

const rules = [limit('all', '1/s')]
const subject = { key: 'default:ada', tenant: 'default', recipient: 'ada' }
const request = { subject, id: '1', rules }

/** A state whose subject is read from the record, which takes some awaits. */
const fromRecord = () =>
  createMemoryState({
    clock: { now: () => 0 } as Clock,
    marginMs: 0,
    recover: async () => ({ entries: [], fingerprints: [], waitlist: [] }),
  })

test('a count that is fired at any await of giving a reservation back stays', async () => {
  for (let awaits = 0; awaits < 12; awaits += 1) {
    const state = fromRecord()
    const unlessFired = { after: Number.NEGATIVE_INFINITY, rules }
    if (awaits % 2 === 0) await state.reserve([request])
    const taken = state.cancel([{ subject, id: '1', unlessFired }])
    for (let count = 0; count < awaits / 2; count += 1) await Promise.resolve()
    await state.fire([request])
    await taken
    const [next] = await state.preview([{ ...request, id: '2' }])
    assert.equal(next!.at, second, `${awaits} awaits`)
  }
})

test('giving back takes a count that its caller knows of, and one that was not fired', async () => {
  for (const isFired of [true, false]) {
    const state = fromRecord()
    await state.reserve([request])
    if (isFired) await state.fire([request])
    await state.cancel([{ subject, id: '1', unlessFired: { after: 0, rules } }])
    assert.equal((await state.preview([{ ...request, id: '2' }]))[0]!.at, 0)
  }
})
