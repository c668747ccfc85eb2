/** After a reload of the policy a subject is read again: a send that is not on record yet still counts, at its instant. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limit } from '@sluice/limits'
import { createMemoryState } from '../../../src/adapters/state/memory.ts'
import type { Clock, Subject } from '../../../src/ports.ts'

const subject: Subject = { key: 'default:ada', tenant: 'default', recipient: 'ada' }
const rules = [limit('one', '1/min', { stream: 's' })]
const start = 1_000_000

test('a send and a new instant that the record does not have yet are kept when the rules are renewed', async () => {
  let now = start
  /** The record as it was before the send and the move: each holds an earlier instant. */
  let recorded: { readonly id: string; readonly at: number; readonly fired: boolean }[] = []
  const state = createMemoryState({
    clock: { now: () => now } as Clock,
    marginMs: 0,
    recover: () => ({
      entries: recorded.map((entry) => ({ ...entry, streams: ['s'] })),
      fingerprints: [],
      waitlist: [],
    }),
  })
  const place = async (id: string) => (await state.reserve([{ subject, id, rules }]))[0]!.at
  assert.equal(await place('sent'), start)
  now = start + 500
  await state.fire([{ subject, id: 'sent', rules }])
  assert.equal(await place('waits'), start + 60_500)
  recorded = [
    { id: 'sent', at: start, fired: false },
    { id: 'waits', at: start + 60_000, fired: false },
  ]
  state.renew()
  assert.equal(await place('newcomer'), start + 120_500, 'both count at their newest instants')
  const [again] = await state.fire([{ subject, id: 'waits', rules }])
  assert.deepEqual(again, { fired: false, at: start + 60_500 })
})
