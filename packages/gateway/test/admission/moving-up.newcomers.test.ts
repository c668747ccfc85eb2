/** No newcomer takes a place before those who wait for it, whatever the moment at which it asks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limit } from '@sluice/limits'
import { createMemoryState } from '../../src/adapters/state/memory.ts'
import type { Clock, LimitRequest } from '../../src/ports.ts'

const rules = [limit('all', '1/s')]
const subject = { key: 'default:ada', tenant: 'default', recipient: 'ada' }
const request = (id: string, waited = false): LimitRequest => ({
  subject,
  id,
  rules,
  ...(waited ? { waited } : {}),
})
const clock = { now: () => 0 } as Clock

test('a place is given back and its subject paused in one step, so that a newcomer at any await stands behind', async () => {
  for (let awaits = 0; awaits < 8; awaits += 1) {
    const state = createMemoryState({
      clock,
      marginMs: 0,
      recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
    })
    for (const id of ['1', '2', '3']) await state.reserve([request(id)])
    const cancelled = state.cancel([request('2')])
    for (let count = 0; count < awaits; count += 1) await Promise.resolve()
    const newcomer = state.reserve([request('4')])
    const freed = await cancelled
    assert.deepEqual(freed, [subject])
    assert.equal((await state.advance([request('3', true)]))?.at, 1_000, `${awaits} awaits later`)
    await state.resume(freed)
    assert.equal((await newcomer)[0]!.at, 2_000, `${awaits} awaits later`)
  }
})
