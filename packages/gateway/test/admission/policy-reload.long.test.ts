/**
 * A policy that comes into force while the gateway runs: what waits moves up where it is wider, nothing is moved to a
 * later instant where it is narrower, and whatever is under way at that moment keeps the limits of the new one.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compilePolicy } from '../../src/policy/compile.ts'
import type { Change, LimitState, Store } from '../../src/ports.ts'
import { createHarness, day, densest, type Harness, hour, minute, second } from '../harness.ts'

const marginMs = 20
const step = hour + marginMs
const limited = (max: string, name = 'all') => ({
  version: 1,
  limits: [{ name, for: 'any', max: [max], over: 'delay' }],
})
const hourly = limited('1/h')
const versionOf = (policy: object): string => compilePolicy(policy).version

/** Returns the due time of each, ms after the start. */
async function instants(harness: Harness, of: readonly { readonly id: string }[]): Promise<number[]> {
  return Promise.all(of.map(async ({ id }) => (await harness.notification(id)).dueAt - harness.start))
}

test('a wider policy lets those who wait move up, in order and before a newcomer', async () => {
  const harness = await createHarness({ policy: hourly })
  await harness.post()
  const waiting = [await harness.post(), await harness.post(), await harness.post()] as const
  assert.deepEqual(await instants(harness, waiting), [step, 2 * step, 3 * step])
  await harness.runFor(minute)
  await harness.done(harness.reload(limited('2/h')))
  const newcomer = await harness.post()
  await harness.runFor(second)
  assert.deepEqual(await instants(harness, [...waiting, newcomer]), [minute, step, minute + step, 2 * step])
  const moved = await harness.notification(waiting[0].id)
  assert.equal(moved.decision.policyVersion, versionOf(limited('2/h')))
  await harness.runFor(4 * hour)
  assert.ok(
    densest(
      harness.sent().map(({ at }) => at),
      hour,
    ) <= 2,
  )
  await harness.check()
  await harness.stop()
})

test('a narrower policy moves nobody, keeps their decisions, and holds at the release', async () => {
  const harness = await createHarness({ policy: limited('4/h') })
  const sent = await harness.postMany([{}, {}, {}, {}])
  const waiting = await harness.postMany([{}, {}])
  const before = await Promise.all(waiting.map(({ id }) => harness.notification(id)))
  await harness.runFor(minute)
  await harness.done(harness.reload(hourly))
  await harness.runFor(minute)
  for (const was of before) assert.deepEqual(await harness.notification(was.id), was)
  await harness.runFor(6 * hour)
  const instants = harness.sent().map(({ at }) => at)
  assert.equal(instants.length, sent.length + waiting.length)
  assert.ok(densest(instants.slice(sent.length - 1), hour) <= 1, 'the later ones keep the new limit')
  await harness.check()
  await harness.stop()
})

test('who was postponed at the release moves up when the policy of their decision is in force again', async () => {
  const nobodyAtNight = { quietHours: { default: { from: '00:00', to: '23:00' }, unknownTimeZone: 'UTC' } }
  for (const [name, narrower] of [
    ['a limit', hourly],
    ['quiet hours', { ...limited('4/h'), ...nobodyAtNight }],
  ] as const) {
    const harness = await createHarness({ policy: limited('4/h') })
    await harness.postMany([{}, {}, {}, {}])
    const waiting = await harness.postMany([{}, {}, {}])
    await harness.runFor(minute)
    await harness.done(harness.reload(narrower))
    await harness.runFor(hour)
    const last = waiting.at(-1)!
    const postponed = await harness.notification(last.id)
    assert.ok(postponed.dueAt > harness.clock.now() + minute, name)
    assert.deepEqual(
      [postponed.decision.policyVersion, postponed.decision.rules],
      [versionOf(narrower), last.decision.rules],
      'the instant is that of the policy in force, and the explanation stays',
    )
    await harness.done(harness.reload(limited('4/h')))
    await harness.runFor(second)
    for (const { id } of waiting) assert.equal((await harness.notification(id)).status, 'delivered', name)
    await harness.check()
    await harness.stop()
  }
})

test('a new limit counts what was sent under the policy before', async () => {
  const harness = await createHarness({ policy: limited('100/h') })
  await harness.postMany([{}, {}])
  await harness.runFor(second)
  const daily = { name: 'daily', for: { channel: 'email' }, max: ['2/day'], over: 'delay' }
  await harness.done(harness.reload({ version: 1, limits: [daily] }))
  const third = await harness.post()
  assert.deepEqual(await instants(harness, [third]), [day + marginMs])
  assert.equal(third.decision.limit, 'daily')
  await harness.stop()
})

/** A point of a request at which the policy is replaced, `awaits` microtasks late. */
interface Moment {
  readonly call: 'commit' | 'committed' | 'reserve' | 'reserved' | 'fire' | 'fired'
  readonly awaits: number
}

const moments: readonly Moment[] = (
  ['commit', 'committed', 'reserve', 'reserved', 'fire', 'fired'] as const
).flatMap((call) => [0, 1, 2, 5].map((awaits) => ({ call, awaits })))

/** Runs `replace` once, at the moment, when it is armed. */
function trap({ call, awaits }: Moment) {
  const state = {
    isArmed: false,
    replace: (): Promise<unknown> => Promise.resolve(),
    done: Promise.resolve() as Promise<unknown>,
  }
  const spring = async (at: Moment['call']): Promise<void> => {
    if (at !== call || !state.isArmed) return
    state.isArmed = false
    for (let count = 0; count < awaits; count += 1) await Promise.resolve()
    state.done = state.replace()
  }
  const around = async <T>(name: 'commit' | 'reserve' | 'fire', ask: () => Promise<T>): Promise<T> => {
    await spring(name)
    const answer = await ask()
    await spring(({ commit: 'committed', reserve: 'reserved', fire: 'fired' } as const)[name])
    return answer
  }
  return {
    state,
    wrap: (store: Store): Store => ({
      ...store,
      commit: (change: Change) => around('commit', () => store.commit(change)),
    }),
    wrapState: (limits: LimitState): LimitState => ({
      ...limits,
      reserve: (requests) => around('reserve', () => limits.reserve(requests)),
      fire: (requests) => around('fire', () => limits.fire(requests)),
    }),
  }
}

for (const [name, before, after, perHour] of [
  ['narrower', limited('3/h'), limited('1/h', 'other'), 1],
  ['wider', limited('1/h'), limited('3/h', 'other'), 3],
] as const) {
  test(`a ${name} policy that comes in the middle of a request holds for it, and nothing is lost`, async () => {
    for (const moment of moments) {
      const { state, wrap, wrapState } = trap(moment)
      const harness = await createHarness({ policy: before, wrap, parts: { wrapState } })
      const said = `${moment.call}, ${moment.awaits} awaits late`
      state.replace = () => harness.reload(after)
      state.isArmed = true
      const posted = await Promise.all([harness.post(), harness.post(), harness.post()])
      await harness.runFor(second)
      assert.equal(state.isArmed, false, `the policy was replaced at ${said}`)
      await harness.done(state.done)
      const reloadedAt = harness.clock.now()
      const later = await harness.postMany([{}, {}])
      await harness.runFor(8 * hour)
      const all = [...posted, ...later]
      for (const { id } of all) assert.equal((await harness.notification(id)).status, 'delivered', said)
      const afterwards = harness
        .sent()
        .map(({ at }) => at)
        .filter((at) => at > reloadedAt)
      const all24 = harness.sent().map(({ at }) => at)
      assert.ok(densest(afterwards, hour) <= perHour, `the new limit holds afterwards, ${said}`)
      assert.ok(densest(all24, hour) <= 3, `the wider of both holds at any time, ${said}`)
      if (perHour === 3)
        assert.ok(
          Math.max(...all24) - harness.start <= 2 * step,
          `nobody waits for longer than needed, ${said}`,
        )
      await harness.check()
      await harness.stop()
    }
  })
}

test('a decision whose reservation was made before a reload is not committed after it', async () => {
  let harness: Harness
  let isArmed = false
  const wrapState = (limits: LimitState): LimitState => ({
    ...limits,
    async reserve(requests) {
      const reservations = await limits.reserve(requests)
      if (!isArmed) return reservations
      isArmed = false
      await harness.reload(hourly)
      return reservations
    },
  })
  harness = await createHarness({ policy: limited('3/h'), parts: { wrapState } })
  const first = await harness.post()
  isArmed = true
  const second = await harness.post()
  const third = await harness.post()
  assert.equal(second.decision.policyVersion, versionOf(hourly))
  assert.deepEqual(await instants(harness, [first, second, third]), [0, step, 2 * step])
  await harness.stop()
})

test('notifications whose limits were asked before a reload are asked again, and none leaves under the old ones', async () => {
  let harness: Harness
  let isArmed = false
  const wrapState = (limits: LimitState): LimitState => ({
    ...limits,
    async fire(requests) {
      const firings = await limits.fire(requests)
      if (!isArmed) return firings
      isArmed = false
      await harness.reload(limited('1/h', 'other'))
      return firings
    },
  })
  harness = await createHarness({ policy: limited('3/h'), parts: { wrapState } })
  isArmed = true
  await harness.postMany([{}, {}, {}])
  await harness.runFor(4 * hour)
  assert.equal(isArmed, false)
  assert.deepEqual(
    harness.sent().map(({ at }) => at - harness.start < minute),
    [true, false, false],
  )
  await harness.check()
  await harness.stop()
})

test('a commit that is under way at a reload holds its instant in the new limits', async () => {
  let harness: Harness
  let isArmed = false
  harness = await createHarness({
    policy: hourly,
    wrap: (store) => ({
      ...store,
      async commit(change) {
        if (!isArmed || change.accept === undefined) return store.commit(change)
        isArmed = false
        await harness.reload(limited('1/h', 'other'))
        // The new limits read the record before the commit is there.
        await harness.gateway.gate.usage('default', 'ada')
        return store.commit(change)
      },
    }),
  })
  const first = await harness.post()
  isArmed = true
  const second = await harness.post()
  await harness.runFor(10)
  const third = await harness.post()
  assert.deepEqual(await instants(harness, [first, second, third]), [0, step, 2 * step])
  await harness.stop()
})

test('a commit that is refused in the middle of a reload is decided again under the new policy', async () => {
  let refusals = 0
  let harness: Harness
  let done: Promise<unknown> | undefined
  harness = await createHarness({
    policy: limited('100/h'),
    wrap: (store) => ({
      ...store,
      async commit(change) {
        if (change.accept === undefined || refusals > 0) return store.commit(change)
        refusals += 1
        done = harness.reload(hourly)
        await done
        return { applied: false, conflicts: [] }
      },
    }),
  })
  const first = await harness.post()
  await harness.done(done!)
  const second = await harness.post()
  assert.equal(refusals, 1)
  assert.equal(first.decision.policyVersion, versionOf(hourly))
  assert.deepEqual(await instants(harness, [first, second]), [0, step])
  await harness.stop()
})

test('a duplicate of a request that is under way at a reload is suppressed', async () => {
  const policy = { ...limited('100/h'), deduplication: { window: '1h' } }
  for (const moment of moments.filter(({ call }) => call !== 'fire' && call !== 'fired')) {
    const { state, wrap, wrapState } = trap(moment)
    const harness = await createHarness({ policy, wrap, parts: { wrapState } })
    state.replace = () => harness.reload({ ...hourly, deduplication: { window: '1h' } })
    state.isArmed = true
    const content = { subject: 'once', text: 'once' }
    const both = await Promise.all([harness.post({ content }), harness.post({ content })])
    await harness.done(state.done)
    const third = await harness.post({ content })
    const suppressed = [...both, third].filter(({ status }) => status === 'suppressed')
    assert.equal(suppressed.length, 2, `${moment.call}, ${moment.awaits} awaits late`)
    await harness.stop()
  }
})

test('a digest that the new policy does not have leaves item by item, and one that is new collects', async () => {
  const digest = {
    name: 'news',
    for: { category: 'product' },
    window: '1h',
    minItems: 2,
    template: 'activity-digest',
  }
  const harness = await createHarness({ policy: { version: 1, limits: [], digests: [digest] } })
  const collected = await harness.postMany([{}, {}])
  assert.equal(collected[0]!.status, 'digesting')
  await harness.done(harness.reload({ version: 1, limits: [] }))
  const alone = await harness.post()
  assert.equal(alone.status, 'queued')
  await harness.runFor(hour + second)
  for (const { id } of collected) assert.equal((await harness.notification(id)).status, 'delivered')
  await harness.done(harness.reload({ version: 1, limits: [], digests: [digest] }))
  assert.equal((await harness.post()).status, 'digesting')
  await harness.check()
  await harness.stop()
})
