/** A category whose recipients complain slows, pauses and goes on by itself; nothing else does, and a kill changes nothing. */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Notification } from '../../src/model.ts'
import { complaintBound, departureShare } from '../../src/policy/complaint-guard.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createHarness, day, type Harness, hour, minute, second } from '../harness.ts'
import {
  byDefault,
  complain,
  gatewayBehind,
  marketing,
  policyOf,
  reportOf,
  small,
  start,
} from './complaints.ts'

/** The number of complaints after which so many deliveries have this bound. */
const complaintsFor = (delivered: number, bound: number): number =>
  Array.from({ length: delivered }, (_, complained) => complained).find(
    (complained) => complaintBound({ delivered, complained }) >= bound,
  )!

const statusesOf = (harness: Harness, ids: readonly string[]) =>
  Promise.all(ids.map(async (id) => (await harness.notification(id)).status))

test('one complaint in a thousand slows nothing, and thirty in two thousand pause marketing for a week and nothing else', async () => {
  const quiet = await gatewayBehind(1_000, byDefault)
  await complain(quiet, 1)
  assert.deepEqual([reportOf(quiet).delivered, reportOf(quiet).stage], [1_000, 'free'])
  assert.equal((await quiet.post(marketing)).decision.outcome, 'send')
  await quiet.stop()

  const harness = await gatewayBehind(2_000, byDefault)
  await complain(harness, 30)
  const { stage, delivered, complained } = reportOf(harness)
  assert.deepEqual([stage, delivered, complained], ['paused', 2_000, 30])
  const { until } = reportOf(harness)
  assert.ok(until! >= start + 7 * day && until! <= start + 7 * day + hour, `${until! - start}`)
  const waiting = [await harness.post(marketing), await harness.post({ ...marketing, priority: 'high' })]
  for (const { status, decision } of waiting)
    assert.deepEqual(
      [status, decision.outcome, decision.reason, decision.at],
      ['scheduled', 'delay', 'complaint_guard', until],
    )
  for (const other of [
    { category: 'security' },
    { category: 'billing' },
    { category: 'product' },
    { ...marketing, priority: 'critical' },
  ] as const)
    assert.equal((await harness.post(other)).decision.outcome, 'send')
  const elsewhere = await harness.post(marketing, { tenant: 'acme', module: 'm' })
  assert.equal(elsewhere.decision.outcome, 'send')
  const ids = waiting.map(({ id }) => id)
  await harness.runUntil(until! - 1)
  // The critical one was delivered later than all others, and moves the estimate by a bucket.
  const { until: end } = reportOf(harness)
  assert.ok(end! <= until! + hour)
  assert.deepEqual(await statusesOf(harness, ids), ['scheduled', 'scheduled'])
  await harness.runUntil(end! + minute)
  assert.deepEqual(await statusesOf(harness, ids), ['delivered', 'delivered'])
  assert.equal((await harness.post(marketing)).decision.outcome, 'send')
  await harness.check()
  await harness.stop()
})

test('a notification that waited for its own instant is stopped by a pause and leaves after it, in order', async () => {
  const harness = await gatewayBehind(100, small)
  const early = await harness.post({ ...marketing, sendAt: start + 2 * hour })
  const late = await harness.post({ ...marketing, sendAt: start + 3 * day })
  await complain(harness, 40)
  await harness.runFor(second)
  const { until } = reportOf(harness)
  const moved = await harness.notification(early.id)
  assert.deepEqual(
    [moved.status, moved.dueAt, moved.timeline.at(-1)?.reason],
    ['scheduled', until, 'complaint_guard'],
  )
  assert.equal((await harness.notification(late.id)).dueAt, start + 3 * day)
  const behind = await harness.post(marketing)
  await harness.runUntil(until! + minute)
  assert.deepEqual(
    harness.sent().map(({ id, at }) => [id, at >= until!]),
    [
      [early.id, true],
      [behind.id, true],
    ],
  )
  await harness.check()
  await harness.stop()
})

test('a slowed category departs at its share of the hour before, first in, first out, at the promised instants', async () => {
  const harness = await gatewayBehind(2_000, { ...small, minimumDelivered: 1_000 })
  await complain(harness, complaintsFor(2_000, 0.075))
  const { stage, bound } = reportOf(harness)
  assert.equal(stage, 'slowed')
  const perHour = 2_000 * departureShare({ warnAt: 0.05, pauseAt: 0.1 }, bound)
  const posted: Notification[] = []
  for (let count = 0; count < 60; count += 1) {
    posted.push(await harness.post(marketing))
    assert.equal((await harness.post({ category: 'product' })).decision.outcome, 'send')
  }
  await harness.runFor(hour)
  const left = harness.sent().filter(({ category }) => category === 'marketing')
  assert.deepEqual(
    left.map(({ id, at }) => [id, at]),
    posted.map(({ id, decision }) => [id, decision.at]),
  )
  const tookMs = left.at(-1)!.at - start
  assert.ok(Math.abs(tookMs - (60 / perHour) * hour) < second, `${tookMs} ms at ${perHour} an hour`)
  await harness.check()
  await harness.stop()
})

test('further complaints slow those who wait already, and none overtakes', async () => {
  const harness = await gatewayBehind(2_000, { ...small, minimumDelivered: 1_000 })
  await complain(harness, complaintsFor(2_000, 0.055))
  const before: Notification[] = []
  for (let count = 0; count < 20; count += 1) before.push(await harness.post(marketing))
  await complain(harness, complaintsFor(2_000, 0.095) - complaintsFor(2_000, 0.055))
  const after: Notification[] = []
  for (let count = 0; count < 5; count += 1) after.push(await harness.post(marketing))
  const perHour = 2_000 * departureShare({ warnAt: 0.05, pauseAt: 0.1 }, reportOf(harness).bound)
  await harness.runFor(hour)
  const left = harness.sent()
  assert.deepEqual(
    left.map(({ id }) => id),
    [...before, ...after].map(({ id }) => id),
  )
  const gaps = left.slice(1).map(({ at }, index) => at - left[index]!.at)
  assert.ok(Math.min(...gaps) >= hour / perHour - second, `${Math.min(...gaps)}`)
  await harness.check()
  await harness.stop()
})

test('a pause that ends before the complaints are gone goes on slowly, in the order of acceptance', async () => {
  const harness = await gatewayBehind(100, small)
  await complain(harness, complaintsFor(100, 0.1))
  const { until } = reportOf(harness)
  const waiting: Notification[] = []
  for (let count = 0; count < 10; count += 1) waiting.push(await harness.post(marketing))
  await harness.runFor(hour)
  // Critical ones are delivered meanwhile, and bring the rate down.
  await harness.postMany(Array.from({ length: 50 }, () => ({ ...marketing, priority: 'critical' })))
  for (let steps = 0; reportOf(harness).stage === 'paused' && steps < 100; steps += 1)
    await harness.runFor(50)
  assert.equal(reportOf(harness).stage, 'slowed')
  const resumedAt = harness.clock.now()
  assert.ok(resumedAt < until!)
  const newcomer = await harness.post(marketing)
  await harness.runFor(hour)
  const left = harness.sent().filter(({ id }) => [...waiting, newcomer].some((each) => each.id === id))
  assert.deepEqual(
    left.map(({ id }) => id),
    [...waiting, newcomer].map(({ id }) => id),
  )
  const gaps = left.slice(1).map(({ at }, index) => at - left[index]!.at)
  assert.ok(Math.min(...gaps) >= 30 * second, `${gaps}`)
  await harness.check()
  await harness.stop()
})

for (const stage of ['paused', 'slowed'] as const)
  test(`a category that is ${stage} is so after a kill, with the same counts, and keeps its order`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-guard-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const file = join(folder, 'sluice.db')
    const copy = join(folder, 'copy.db')
    const first = await gatewayBehind(100, small, file)
    await complain(first, stage === 'paused' ? 40 : complaintsFor(100, 0.075))
    const ids: string[] = []
    for (let count = 0; count < 10; count += 1) ids.push((await first.post(marketing)).id)
    await first.runFor(150 * second)
    const before = reportOf(first)
    assert.equal(before.stage, stage)
    const sent = first.sent().map(({ id }) => id)
    for (const end of ['', '-wal']) if (existsSync(file + end)) copyFileSync(file + end, copy + end)
    const restarted = await createHarness({
      clock: createVirtualClock(first.clock.now()),
      policy: policyOf(small),
      file: copy,
    })
    await first.stop()
    await restarted.done(restarted.gateway.complaints.filled())
    const after = reportOf(restarted)
    assert.deepEqual(after, before)
    ids.push((await restarted.post(marketing)).id)
    assert.equal((await restarted.notification(ids.at(-1)!)).decision.reason, 'complaint_guard')
    await restarted.runUntil(before.until === undefined ? restarted.clock.now() + hour : before.until + hour)
    assert.deepEqual([...sent, ...restarted.sent().map(({ id }) => id)], ids)
    await restarted.check()
    await restarted.stop()
  })

test('a policy without the section lets what was paused leave, and one with other bounds judges the same counts', async () => {
  const harness = await gatewayBehind(100, small)
  await complain(harness, 40)
  const { id } = await harness.post(marketing)
  await harness.reload(policyOf({ ...small, pauseAt: '90%' }))
  await harness.runFor(second)
  assert.equal(reportOf(harness).stage, 'slowed')
  await harness.reload(policyOf({ ...small, window: '2d' }))
  await harness.done(harness.gateway.complaints.filled())
  const { stage, delivered, complained } = reportOf(harness)
  assert.deepEqual([stage, complained], ['paused', 40])
  assert.ok(delivered >= 100)
  await harness.reload({ version: 1, limits: [] })
  await harness.runFor(minute)
  assert.equal((await harness.notification(id)).status, 'delivered')
  assert.deepEqual(await harness.gateway.store.holds(), [])
  await harness.check()
  await harness.stop()
})
