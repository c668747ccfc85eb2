/**
 * The complaint guard of two gateways over one record in memory, in virtual time: both count what either of them
 * delivered and heard, and have the same stage, also when the one that decides dies.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { complaintBound, departureShare } from '../../src/policy/complaint-guard.ts'
import { type Harness, hour, minute, second } from '../harness.ts'
import { overriding } from '../overriding.ts'
import { marketing, policyOf, reportOf, small } from './complaints.ts'
import { during, twoProcesses } from './two-processes.ts'

// A window of minutes: the processes read the record every second of it.
const windowMs = 10 * minute
const policy = policyOf({ ...small, window: '10min' })
let recipients = 0

/** A message to a recipient of its own. */
const toOther = () => {
  recipients += 1
  return { ...marketing, recipient: `r${recipients}` }
}

/** The number of complaints after which so many deliveries have this bound. */
const complaintsFor = (delivered: number, bound: number): number =>
  Array.from({ length: delivered }, (_, complained) => complained).find(
    (complained) => complaintBound({ delivered, complained }) >= bound,
  )!

/** Delivers marketing messages at both processes in turn; returns their ids. */
async function deliver(count: number, ...processes: readonly Harness[]): Promise<string[]> {
  const ids: string[] = []
  for (let index = 0; index < count; index += 1)
    ids.push((await processes[index % processes.length]!.post(toOther())).id)
  await processes[0]!.runFor(3 * second)
  return ids
}

/** Complains about messages, at both processes in turn. */
async function complain(ids: readonly string[], ...processes: readonly Harness[]): Promise<void> {
  for (const [index, notificationId] of ids.entries()) {
    const at = processes[index % processes.length]!
    const report = { type: 'complaint', at: at.clock.now(), notificationId } as const
    await during(at, at.gateway.feedback.report([report], { tenant: 'default' }))
  }
  await processes[0]!.runFor(3 * second)
}

const stagesOf = (...processes: readonly Harness[]) => processes.map((each) => reportOf(each).stage)

test('complaints at two processes about what both delivered pause a category at both, and it resumes at the one that is left', async () => {
  const { clock, a, b, declareDead } = await twoProcesses({ policy })
  const ids = await deliver(100, a, b)
  await complain(ids.slice(0, 9), a, b)
  assert.deepEqual(stagesOf(a, b), ['free', 'free'])
  await complain(ids.slice(9, 40), a, b)
  for (const { delivered, complained, stage } of [reportOf(a), reportOf(b)])
    assert.deepEqual([delivered, complained, stage], [100, 40, 'paused'])
  assert.deepEqual(reportOf(a).since, reportOf(b).since)
  const waiting = [await a.post(toOther()), await b.post(toOther())]
  for (const { status, decision } of waiting)
    assert.deepEqual([status, decision.reason], ['scheduled', 'complaint_guard'])
  assert.equal((await b.post({ category: 'security' })).decision.outcome, 'send')
  declareDead('a')
  await clock.runUntil(clock.now() + 10 * second)
  assert.deepEqual(stagesOf(b), ['paused'])
  const { until } = reportOf(b)
  assert.ok(until! <= clock.now() + windowMs + minute)
  await clock.runUntil(until! - second)
  assert.deepEqual(
    b.sent().filter(({ id }) => waiting.some((each) => each.id === id)),
    [],
  )
  await clock.runUntil(until! + minute)
  assert.deepEqual(
    b.sent().flatMap(({ id }) => (waiting.some((each) => each.id === id) ? [id] : [])),
    waiting.map(({ id }) => id),
  )
  assert.equal(stagesOf(b)[0], 'free')
  await b.stop()
})

test('complaints that the process which decides has not judged are judged by the one that follows, though nothing else happens', async () => {
  let isStuck = false
  const { clock, a, b, declareDead } = await twoProcesses({
    policy,
    wrapStore: (store, id) =>
      id === 'a'
        ? overriding(store, { holds: () => (isStuck ? new Promise(() => {}) : store.holds()) })
        : store,
  })
  const ids = await deliver(100, a, b)
  isStuck = true
  await complain(ids.slice(0, 40), b)
  assert.deepEqual([reportOf(b).complained, reportOf(b).stage], [40, 'free'])
  declareDead('a')
  await clock.runUntil(clock.now() + 3 * second)
  assert.equal(reportOf(b).stage, 'paused')
  await b.stop()
})

test('a category that is slowed departs at its share from both processes together, and what waited in a pause in its order', async () => {
  const { clock, a, b } = await twoProcesses({ policy })
  const ids = await deliver(400, a, b)
  await complain(ids.slice(0, complaintsFor(400, 0.1)), a, b)
  assert.deepEqual(stagesOf(a, b), ['paused', 'paused'])
  const waited: string[] = []
  for (let index = 0; index < 20; index += 1) {
    waited.push((await [a, b][index % 2]!.post(toOther())).id)
    // The order of acceptance is that of the instants.
    await clock.runUntil(clock.now() + 10)
  }
  // Critical ones are delivered meanwhile, and bring the rate down.
  for (let index = 0; index < 160; index += 1)
    await [a, b][index % 2]!.post({ ...toOther(), priority: 'critical' })
  for (let steps = 0; stagesOf(a, b).includes('paused') && steps < 100; steps += 1)
    await clock.runUntil(clock.now() + 100)
  assert.deepEqual(stagesOf(a, b), ['slowed', 'slowed'])
  const from = clock.now()
  const perHour = 400 * departureShare({ warnAt: 0.05, pauseAt: 0.1 }, reportOf(a).bound)
  const newcomers: string[] = []
  for (let index = 0; index < 40; index += 1) newcomers.push((await [a, b][index % 2]!.post(toOther())).id)
  const leftBy = () =>
    [...a.sent(), ...b.sent()]
      .filter(({ id }) => waited.includes(id) || newcomers.includes(id))
      .sort((one, other) => one.at - other.at)
  await clock.runUntil(from + 7 * minute)
  const left = leftBy()
  assert.deepEqual(
    left.slice(0, 20).map(({ id }) => id),
    waited,
  )
  // Both together depart no faster than the share of the hour before, and not much slower.
  const expected = (7 * minute * perHour) / hour
  assert.ok(left.length <= expected + 1 && left.length >= 0.75 * expected, `${left.length} of ${expected}`)
  for (const [index, { at }] of left.entries()) {
    const fifth = left[index + 5]
    if (fifth !== undefined) assert.ok(fifth.at - at >= (3 * hour) / perHour, `6 in ${fifth.at - at} ms`)
  }
  // When the complaints have left the window, all may leave.
  await clock.runUntil(from + 20 * minute)
  assert.equal(leftBy().length, 60)
  await a.stop()
  await b.stop()
})
