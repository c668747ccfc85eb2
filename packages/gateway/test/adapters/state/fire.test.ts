import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limit } from '@sluice/limits'
import { createMemoryState } from '../../../src/adapters/state/memory.ts'
import { RulesReplaced } from '../../../src/errors.ts'
import type { PlanLate } from '../../../src/ports/limiter.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

const start = 1_000_000
const subject = { key: 'ada', tenant: 'default', recipient: 'ada' }
const rules = [limit('all', '1/10s', { stream: 'all' })]
const request = (id: string) => ({ subject, id, rules })

/** Three notifications hold 0, 10 and 20 s, and are asked for at 60 s; plans wait until they are let go. */
async function lateState(move: Parameters<Parameters<PlanLate>[1]['move']>[0] = []) {
  const clock = createVirtualClock(start)
  const { promise: isLetGo, resolve: letGo } = Promise.withResolvers<void>()
  const planned: (readonly string[])[] = []
  const state = createMemoryState({
    clock,
    marginMs: 0,
    recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
    async planLate({ refused }, entries) {
      planned.push([...refused])
      await isLetGo
      entries.move(move)
    },
  })
  for (const id of ['1', '2', '3']) await state.reserve([request(id)])
  await clock.runUntil(start + 60_000)
  return { clock, state, letGo, planned }
}

test('a subject whose limit refuses a late notification is planned before anything else of it is fired', async () => {
  const at = start + 90_000
  const { state, letGo, planned } = await lateState([
    { id: '2', at, subjects: [{ subject, streams: ['all'] }] },
    { id: '3', at: at + 10_000, subjects: [{ subject, streams: ['all'] }] },
  ])
  const firing = state.fire(['1', '2', '3'].map(request))
  await Promise.resolve()
  assert.deepEqual(planned, [['2']])
  letGo()
  assert.deepEqual(await firing, [
    { fired: true, at: start + 60_000 },
    { fired: false, at },
    { fired: false, at: at + 10_000 },
  ])
  assert.deepEqual(planned, [['2']])
})

test('a newcomer is held up while its subject is planned', async () => {
  const { state, letGo } = await lateState()
  const firing = state.fire(['1', '2'].map(request))
  let isReserved = false
  const reserving = state.reserve([request('4')]).then(() => {
    isReserved = true
  })
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve()
  assert.equal(isReserved, false)
  letGo()
  await firing
  await reserving
})

test('rules that are replaced while a subject is planned make the caller ask again', async () => {
  const { state, letGo } = await lateState()
  const firing = state.fire(['1', '2'].map(request))
  await Promise.resolve()
  state.renew()
  letGo()
  await assert.rejects(firing, RulesReplaced)
})

test('a refused notification is not planned where nothing else waits in its subject', async () => {
  const { state, letGo, planned } = await lateState()
  letGo()
  await state.cancel(['1', '3'].map((id) => ({ subject, id })))
  await state.force([request('5')])
  assert.deepEqual(await state.fire([request('2')]), [{ fired: false, at: start + 70_000 }])
  assert.deepEqual(planned, [])
})
