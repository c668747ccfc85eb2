/** The capacity that a background batch reserves from its opening on, and its cancellation. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Priority } from '../../src/model.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'
import { createScripted, delivered, throttled } from '../delivery/scripted.ts'
import { createHarness, hour, minute, second } from '../harness.ts'
import { codeOf, failing, mine, open, policy, queueOf, stateOf, tenants, workFor } from './job-harness.ts'

test('a job reserves capacity for its unaccepted recipients from its opening to its end, also after a restart', async () => {
  let closed = true
  const { provider } = createScripted(() => (closed ? throttled('5') : delivered))
  const folder = mkdtempSync(join(tmpdir(), 'sluice-jobs-'))
  const options = { file: join(folder, 'sluice.db'), policy, config: tenants({ queue: 250 }) }
  let holds = true
  const harness = await createHarness({
    ...options,
    wrap: (store) => failing(store, ({ accept }) => holds && accept !== undefined),
    parts: { providers: [provider] },
  })
  const job = await open(harness, workFor(200))
  await harness.runFor(second)
  assert.equal(queueOf(harness), 200)
  assert.equal(await codeOf(open(harness, workFor(101))), 'QUEUE_FULL')
  assert.equal(
    (await harness.gateway.store.runningJobs()).length,
    1,
    'nothing of the refused one is on record',
  )
  await harness.stop()

  const again = await createHarness({
    ...options,
    start: harness.start + second,
    wrap: (store) => failing(store, ({ accept }) => holds && accept !== undefined),
    parts: { providers: [provider] },
  })
  assert.equal(queueOf(again), 200)
  holds = false
  await again.runFor(10 * second)
  // The queue is full but for fifty, and the job got all of its reserved capacity.
  assert.deepEqual([(await stateOf(again, job)).status, queueOf(again)], ['done', 200])
  assert.equal(await codeOf(again.postMany(Array.from({ length: 51 }, () => ({})))), 'QUEUE_FULL')
  assert.equal(await codeOf(again.postMany(Array.from({ length: 50 }, () => ({})))), 'done')
  closed = false
  await again.runFor(hour)
  assert.deepEqual((await stateOf(again, job)).counts, { delivered: 200 })
  assert.equal(queueOf(again), 0)
  await again.stop()
  rmSync(folder, { recursive: true })
})

test('a job that fills the queue exactly is accepted to its last recipient, and a critical notification above it', async () => {
  let closed = true
  const { provider } = createScripted(() => (closed ? throttled('5') : delivered))
  const harness = await createHarness({
    policy,
    config: tenants({ queue: 200 }),
    parts: { providers: [provider] },
  })
  const full = await open(harness, workFor(200))
  assert.equal(await codeOf(open(harness, workFor(101))), 'QUEUE_FULL')
  const urgent = await open(harness, workFor(20, { priority: 'critical' satisfies Priority }, 'u'))
  await harness.runFor(second)
  for (const job of [full, urgent]) assert.equal((await stateOf(harness, job)).status, 'done')
  assert.equal(queueOf(harness), 220)
  closed = false
  await harness.runFor(5 * minute)
  assert.equal(queueOf(harness), 0)
  await harness.check()
  await harness.stop()
})

test('a cancelled job accepts nothing more, its waiting notifications are cancelled, and its capacity is free', async () => {
  let holds = false
  const folder = mkdtempSync(join(tmpdir(), 'sluice-jobs-'))
  const harness = await createHarness({
    file: join(folder, 'sluice.db'),
    policy,
    config: tenants({ rate: '100/min' }),
    wrap: (store) => failing(store, ({ accept }) => holds && accept !== undefined),
  })
  let accepted = 0
  harness.gateway.ledger.subscribe(({ events }) => {
    if (events[0]?.status !== 'accepted') return
    accepted += 1
    if (accepted === 240) holds = true
  })
  const job = await open(harness, workFor(500))
  await harness.runFor(100)
  assert.deepEqual((await stateOf(harness, job)).counts, { delivered: 100, scheduled: 140 })
  await harness.done(harness.gateway.jobs.cancel(job))
  const ended = await stateOf(harness, job)
  assert.deepEqual([ended.status, ended.counts], ['cancelled', { delivered: 100, cancelled: 140 }])
  assert.deepEqual([queueOf(harness), harness.gateway.jobs.running()], [0, 0])
  await harness.done(harness.gateway.jobs.cancel((await harness.gateway.store.job('default', job.id))!))
  holds = false
  // The slots of the window are free too: the next in the queue gets the first of them.
  assert.equal((await harness.post()).dueAt, harness.start + minute + 20)
  await harness.runFor(hour)
  assert.equal(harness.sent().length, 101)
  await harness.check()
  await harness.stop()
  rmSync(folder, { recursive: true })
})

test('a job cancelled between its steps: accepted notifications end, and no further ones come', async () => {
  const harness = await createHarness({ policy, config: tenants({ rate: '1/min' }) })
  const opening = harness.gateway.jobs.open({ caller: mine, work: workFor(500), refused: [] })
  const job = await harness.done(
    opening.then(async (job) => {
      // A few steps in, while the next is running.
      while ((await harness.gateway.store.job('default', job.id))!.taken < 100)
        await new Promise(setImmediate)
      await harness.gateway.jobs.cancel(job)
      return job
    }),
  )
  const { status, taken, counts } = await stateOf(harness, job)
  assert.equal(status, 'cancelled')
  assert.ok(taken >= 100 && taken < 300, `${taken} were accepted`)
  assert.equal((counts.cancelled ?? 0) + (counts.delivered ?? 0) + (counts.queued ?? 0), taken)
  await harness.runFor(hour)
  assert.equal((await stateOf(harness, job)).taken, taken)
  assert.equal(harness.sent().length, 1)
  await harness.check()
  await harness.stop()
})

test('a done job can be cancelled while one of its notifications waits, and not afterwards', async () => {
  const harness = await createHarness({ policy, config: tenants({ rate: '100/min' }) })
  const job = await open(harness, workFor(150))
  await harness.runFor(second)
  const done = (await harness.gateway.store.job('default', job.id))!
  assert.equal(done.status, 'done')
  await harness.done(harness.gateway.jobs.cancel(done))
  assert.deepEqual(await stateOf(harness, job), {
    status: 'cancelled',
    taken: 150,
    counts: { delivered: 100, cancelled: 50 },
    refused: [],
  })
  await harness.runFor(2 * minute)
  const other = await open(harness, workFor(100, {}, 'other'))
  await harness.runFor(second)
  const over = (await harness.gateway.store.job('default', other.id))!
  assert.equal(await codeOf(harness.done(harness.gateway.jobs.cancel(over))), 'NOT_CANCELLABLE')
  assert.equal((await stateOf(harness, other)).status, 'done')
  await harness.stop()
})

test('a job whose recipients are all refused is done at once', async () => {
  const harness = await createHarness({ policy })
  const refused = [{ recipient: 'eve', code: 'INVALID_REQUEST', detail: 'no address' }]
  const job = await open(harness, workFor(0), mine, refused)
  assert.deepEqual(await stateOf(harness, job), { status: 'done', taken: 1, counts: {}, refused })
  assert.equal(await codeOf(harness.done(harness.gateway.jobs.cancel(job))), 'NOT_CANCELLABLE')
  await harness.stop()
})

test('a job at a gateway that was declared dead is refused as one that the store does not take', async () => {
  const record = createMemoryRecord(250)
  const harness = await createHarness({ policy, parts: { store: record.open('a') } })
  record.declareDead('a')
  assert.equal(await codeOf(open(harness, workFor(150))), 'STORE_UNAVAILABLE')
  assert.equal(queueOf(harness), 0)
  await harness.stop()
})
