import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limit, type RestoredEntry } from '@sluice/limits'
import { createMemoryState } from '../../src/adapters/state/memory.ts'
import { createLatePlans } from '../../src/admission/late-plans.ts'
import type { HeldMove, SubjectEntries } from '../../src/ports/limiter.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import type { Live } from '../../src/stages.ts'

/** Plans over a subject in which nothing waits; each plan takes 2 ms. */
function countedPlans() {
  let now = 0
  /** The wall clock of the machine was set on by so much, which `monotonic` takes for a suspension. */
  let setMs = 0
  let reads = 0
  const clock = { now: () => now, monotonic: () => now + setMs }
  const plan = createLatePlans({
    store: { notification: async () => undefined },
    ledger: { live: () => undefined },
    policy: { rulesFor: () => [], longestWindowMs: 0, version: 'v' },
    recipients: { find: async () => null },
    forbiddenHours: { forbidden: () => undefined, hasHours: () => false, heldUntil: () => undefined },
    clock,
    marginMs: 0,
    onMoved() {},
    onError(_, error) {
      throw error
    },
  })
  const entries: SubjectEntries = {
    async read() {
      reads += 1
      now += 2
      return []
    },
    peek: () => new Map([['ada', []]]),
    move: () => [],
  }
  const subject = { key: 'ada', tenant: 'default', recipient: 'ada' }
  return {
    plan: () => plan({ subject, refused: new Set(['1']) }, entries),
    pass(ms: number): number {
      now += ms
      return now
    },
    plannedMs: () => 2 * reads,
    setClock(ms: number) {
      setMs += ms
    },
  }
}

test('a subject that is late all the time is planned for 5 % of the time at most', async () => {
  const { plan, pass, plannedMs } = countedPlans()
  let passedMs = 0
  for (let time = 0; time < 4_000; time += 1) {
    await plan()
    passedMs = pass(1)
  }
  const share = plannedMs() / passedMs
  assert.ok(share > 0.04 && share < 0.051, `planned for ${share} of the time`)
})

test('a wall clock that is set while a subject is planned does not put the next plan off', async () => {
  const { plan, pass, plannedMs, setClock } = countedPlans()
  const planning = plan()
  setClock(3_600_000)
  await planning
  pass(40)
  await plan()
  assert.equal(plannedMs(), 4)
})

test('a plan of the first of very many moves them behind what is late and leaves the others their instants', async () => {
  const start = 1_000_000
  const clock = createVirtualClock(start)
  const subject = { key: 'all', tenant: 'default' }
  const rules = [limit('all', '1/10s')]
  const ids = Array.from({ length: 8 }, (_, index) => `${index}`)
  const promised = new Map(ids.map((id, index) => [id, start + index * 10_000]))
  const liveOf = (id: string) => {
    const notification = { id, tenant: 'default', to: { id }, status: 'scheduled', dueAt: promised.get(id) }
    return { notification, status: 'scheduled', events: [] } as unknown as Live
  }
  const state = createMemoryState({
    clock,
    marginMs: 0,
    recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
    planLate: createLatePlans({
      store: { notification: async () => undefined },
      ledger: { live: liveOf },
      policy: { rulesFor: () => [{ subject, rules }], longestWindowMs: 10_000, version: 'v' },
      recipients: { find: async () => null },
      forbiddenHours: { forbidden: () => undefined, hasHours: () => false, heldUntil: () => undefined },
      clock,
      marginMs: 0,
      onMoved: (subjects) => void state.resume(subjects),
      onError(_, error) {
        throw error
      },
      plannedMax: 4,
    }),
  })
  for (const id of ids) await state.reserve([{ subject, id, rules }])
  await clock.runUntil(start + 1_500)
  await state.fire([{ subject, id: '0', rules }])
  await clock.runUntil(start + 10_000)
  await state.fire([{ subject, id: '1', rules }])
  const advanced = await Promise.all(
    ids.slice(1).map((id) => state.advance([{ subject, id, rules, promisedAt: 0 }])),
  )
  assert.deepEqual(
    advanced.map((each) => each!.at - start),
    [11_500, 21_500, 31_500, 41_500, 50_000, 60_000, 70_000],
  )
})

test('a plan moves nothing that another process is firing: it counts in one subject, and waits in the next one still', async () => {
  const now = 1_000_000
  const [ada, actor] = ['ada', 'actor=x'].map((key) => ({ key, tenant: 'default' }))
  const rules = [limit('one', '1/10s', { stream: 'all' })]
  const liveOf = (id: string) => {
    const notification = { id, tenant: 'default', to: { id }, status: 'scheduled', dueAt: now - 5_000 }
    return { notification, status: 'scheduled', events: [] } as unknown as Live
  }
  const moved: HeldMove[] = []
  const plan = createLatePlans({
    store: { notification: async () => undefined },
    ledger: { live: liveOf },
    policy: {
      rulesFor: () => [ada!, actor!].map((subject) => ({ subject, rules })),
      longestWindowMs: 10_000,
      version: 'v',
    },
    recipients: { find: async () => null },
    forbiddenHours: { forbidden: () => undefined, hasHours: () => false, heldUntil: () => undefined },
    clock: { now: () => now },
    marginMs: 0,
    onMoved() {},
    onError(_, error) {
      throw error
    },
  })
  const waits = (id: string): RestoredEntry => ({
    id,
    at: now - 5_000,
    fired: false,
    weight: 1,
    streams: ['all'],
  })
  const entries: SubjectEntries = {
    read: async () => ['leaves', 'refused'].map(waits),
    peek: () =>
      new Map([
        ['ada', [{ ...waits('leaves'), at: now, fired: true }, waits('refused')]],
        ['actor=x', ['leaves', 'refused'].map(waits)],
      ]),
    move(moves) {
      moved.push(...moves)
      return []
    },
  }
  await plan({ subject: actor!, refused: new Set(['refused']) }, entries)
  assert.deepEqual(
    moved.map(({ id, at }) => [id, at - now]),
    [['refused', 10_000]],
  )
  moved.length = 0
  // Another process has closed the digest whose place was to be kept, and sends it under its id.
  await plan({ subject: actor!, refused: new Set(), kept: new Set(['leaves']) }, entries)
  assert.deepEqual(
    moved.map(({ id, at }) => [id, at - now]),
    [['refused', 10_000]],
  )
})
