import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limit } from '@sluice/limits'
import { createMemoryState } from '../../../src/adapters/state/memory.ts'
import type { Subject } from '../../../src/ports.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

const start = 1_000_000
const subject = { key: 'tenant', tenant: 'default' }
const rules = [limit('all', '1/10s')]

function stateAt(recovered: Subject[] = []) {
  const clock = createVirtualClock(start)
  const state = createMemoryState({
    clock,
    marginMs: 0,
    recover(asked) {
      recovered.push(asked)
      return { entries: [], fingerprints: [], waitlist: [] }
    },
  })
  return { clock, state }
}

test('one that a limit holds up for a moment at its release leaves no place for which others are looked at', async () => {
  const { clock, state } = stateAt()
  for (const id of ['1', '2', '3']) await state.reserve([{ subject, id, rules }])
  await clock.runUntil(start + 7)
  assert.equal((await state.fire([{ subject, id: '1', rules }]))[0]!.fired, true)
  await clock.runUntil(start + 10_000)
  const [held] = await state.fire([{ subject, id: '2', rules }])
  assert.deepEqual(held, { fired: false, at: start + 10_007 })
})

test('one that hours hold up at its release leaves its place to those who wait', async () => {
  const { clock, state } = stateAt()
  for (const id of ['1', '2', '3']) await state.reserve([{ subject, id, rules }])
  await state.fire([{ subject, id: '1', rules }])
  await clock.runUntil(start + 10_000)
  const forbidden = [{ from: start, to: start + 60_000 }]
  const [held] = await state.fire([{ subject, id: '2', rules, forbidden }])
  assert.deepEqual(held, { fired: false, at: start + 60_000, freed: subject })
})

test('a notification moves up without a read of those of its subjects that have no limits', async () => {
  const recovered: Subject[] = []
  const { state } = stateAt(recovered)
  const own = { key: 'ada', tenant: 'default', recipient: 'ada' }
  for (const id of ['1', '2']) await state.reserve([{ subject, id, rules }])
  recovered.length = 0
  await state.resume(await state.cancel([{ subject, id: '1' }]))
  const advanced = await state.advance([
    { subject, id: '2', rules },
    { subject: own, id: '2', rules: [] },
  ])
  assert.equal(advanced?.at, start)
  assert.deepEqual(recovered, [])
})
