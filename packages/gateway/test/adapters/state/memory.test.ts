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

test('a reload of the policy while the first of a subject are known makes all questions wait for another read', async () => {
  const reads: PromiseWithResolvers<void>[] = []
  const state = createMemoryState({
    clock: createVirtualClock(start),
    marginMs: 0,
    async recover(_, onSoon) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      reads.push({ promise, resolve, reject })
      const entries = [{ id: '1', at: start + 25_000, fired: false, streams: ['all'] }]
      await Promise.resolve()
      if (reads.length === 1) onSoon({ entries, fingerprints: [], waitlist: [], before: '2' })
      await promise
      return { entries, fingerprints: [], waitlist: [] }
    },
  })
  assert.deepEqual(await state.waiting(subject, { first: true }), ['1'])
  state.renew()
  let ids: readonly string[] | undefined
  const asked = state.waiting(subject, { first: true }).then((answer) => {
    ids = answer
  })
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  assert.equal(ids, undefined)
  reads[0]!.resolve()
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  reads[1]!.resolve()
  await asked
  assert.deepEqual([ids, reads.length], [['1'], 2])
})

test('a subject of which the first are read lets these move up, and all other questions wait for the rest', async () => {
  const streams = ['all']
  const held = (id: string, inMs: number) => ({ id, at: start + inMs, fired: false, streams })
  const [first, others] = [[held('1', 25_000), held('3', 45_000)], [held('2', 90_000)]]
  const { promise: rest, resolve: readRest } = Promise.withResolvers<void>()
  const reported: Subject[] = []
  const state = createMemoryState({
    clock: createVirtualClock(start),
    marginMs: 0,
    onOutdated: (outdated) => reported.push(outdated),
    async recover(_, onSoon) {
      const facts = { fingerprints: [], waitlist: [], isOutdated: true }
      await Promise.resolve()
      onSoon({ ...facts, entries: first, before: '2' })
      await rest
      return { ...facts, entries: [...first, ...others] }
    },
  })
  assert.deepEqual(await state.waiting(subject, { first: true }), ['1'])
  const advanced = await state.advance([{ subject, id: '1', rules }])
  assert.deepEqual([advanced?.at, advanced?.freed], [start, [subject]])
  await state.resume(advanced!.freed)
  const answers: string[] = []
  const asked = [
    state.advance([{ subject, id: '3', rules }]).then((third) => answers.push(`3 at ${third!.at - start}`)),
    state.waiting(subject).then((ids) => answers.push(ids.join(' '))),
    state
      .reserve([{ subject, id: '4', rules, waited: true }])
      .then(([newcomer]) => answers.push(`4 at ${newcomer!.at - start}`)),
  ]
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(answers, [], 'one who was accepted behind others that are not read is not evaluated')
  readRest()
  await Promise.all(asked)
  assert.deepEqual(
    answers.sort(),
    ['2 3', '3 at 10000', '4 at 20000'],
    'what has moved up meanwhile keeps its place',
  )
  assert.deepEqual(reported, [subject], 'those who let the first move up wait for the others')
})

test('a notification that was fired a moment ago counts although its subject has no room in memory and the record does not know', async () => {
  const clock = createVirtualClock(start)
  const streams = ['all']
  const state = createMemoryState({
    clock,
    marginMs: 0,
    subjectsMax: 1,
    // Both are overdue by the record; a third one waits for later, so the subject cannot be packed.
    recover: ({ key }) => ({
      entries:
        key !== subject.key
          ? []
          : [
              { id: '1', at: start - 30_000, fired: false, streams },
              { id: '2', at: start - 20_000, fired: false, streams },
              { id: '3', at: start + 60_000, fired: false, streams },
            ],
      fingerprints: [],
      waitlist: [],
    }),
  })
  assert.equal((await state.fire([{ subject, id: '1', rules }]))[0]!.fired, true)
  for (let other = 0; other < 20; other += 1) {
    const { key, tenant } = { key: `other-${other}`, tenant: 'default' }
    await state.reserve([{ subject: { key, tenant }, id: 'x', rules }])
  }
  const [second] = await state.fire([{ subject, id: '2', rules }])
  assert.equal(second?.fired, false)
})

test('a newcomer is booked behind all who wait where the rest of them is read while the first move up', async () => {
  const held = (id: string, inMs: number) => ({ id, at: start + inMs, fired: false, streams: ['all'] })
  const { promise: rest, resolve: readRest } = Promise.withResolvers<void>()
  const state = createMemoryState({
    clock: createVirtualClock(start),
    marginMs: 0,
    onOutdated: () => undefined,
    async recover(_, onSoon) {
      const facts = { fingerprints: [], waitlist: [], isOutdated: true }
      await Promise.resolve()
      onSoon({ ...facts, entries: [held('1', 25_000)], before: '2' })
      await rest
      return { ...facts, entries: [held('1', 25_000), held('2', 90_000)] }
    },
  })
  await state.queueBehind(subject, await state.waiting(subject, { first: true }))
  // As a pass does where the first are many.
  await state.resume([subject])
  const newcomer = state.reserve([{ subject, id: '3', rules }])
  readRest()
  assert.equal((await newcomer)[0]!.at, start + 100_000)
  await state.queueBehind(subject, [])
  const [next] = await state.reserve([{ subject, id: '4', rules }])
  assert.equal(next!.at, start, 'the pass is over')
})
