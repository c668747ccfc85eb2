/**
 * Background batches in a whole gateway, in virtual time: to the end, several at once, over restarts and
 * failures.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Job } from '../../src/model.ts'
import { createHarness, densest, hour, minute, second } from '../harness.ts'
import { codeOf, failing, mine, open, policy, queueOf, stateOf, tenants, workFor } from './job-harness.ts'

test('a batch of 500 against 100/min is sent as 100 in every rolling minute and is complete after five', async (t) => {
  const harness = await createHarness({ policy, config: tenants({ rate: '100/min' }) })
  const job = await open(harness, workFor(500))
  await harness.runFor(0)
  const { status, counts } = await stateOf(harness, job)
  assert.deepEqual(
    [status, (counts.scheduled ?? 0) + (counts.queued ?? 0) + (counts.delivered ?? 0)],
    ['done', 500],
  )
  const lastAt = harness.start + 4 * (minute + 20)
  await harness.runUntil(lastAt - 1)
  assert.ok(harness.sent().length < 500)
  await harness.runUntil(lastAt + second)
  const instants = harness.sent().map(({ at }) => at)
  t.diagnostic(
    `${densest(instants, minute)} in the fullest minute, the last after ${Math.max(...instants) - harness.start} ms`,
  )
  assert.equal(instants.length, 500)
  assert.equal(densest(instants, minute), 100)
  assert.equal(Math.max(...instants), lastAt)
  assert.deepEqual((await stateOf(harness, job)).counts, { delivered: 500 })
  await harness.check()
  await harness.stop()
})

test('two jobs take turns, and a single request does not wait for them', async () => {
  const harness = await createHarness({ policy })
  const order: string[] = []
  let caller: Promise<unknown> | undefined
  harness.gateway.ledger.subscribe(({ notification, events }) => {
    if (events[0]?.status !== 'accepted') return
    order.push(notification.module)
    if (order.length === 100) caller = harness.tryPost({}, { ...mine, module: 'caller' })
  })
  const opened = await harness.done(
    Promise.all(
      ['a', 'b'].map((module) =>
        harness.gateway.jobs.open({
          caller: { ...mine, module },
          work: workFor(500, {}, module),
          refused: [],
        }),
      ),
    ),
  )
  await harness.runFor(second)
  await caller
  const between = order.indexOf('caller') - 100
  assert.ok(between <= 60, `${between} of the jobs were accepted while the caller waited`)
  const halves = order.slice(0, 500).filter((module) => module === 'a').length
  assert.ok(halves > 200 && halves < 300, `${halves} of the first 500 are of one module`)
  for (const job of opened) assert.deepEqual((await stateOf(harness, job)).counts, { delivered: 500 })
  assert.equal(harness.gateway.jobs.running(), 0)
  await harness.check()
  await harness.stop()
})

test('jobs of more modules than fit in memory, several each, all complete', async () => {
  const harness = await createHarness({ policy, config: tenants({ queue: 100_000 }) })
  const opened: Job[] = []
  for (let index = 0; index < 33; index += 1) {
    opened.push(await open(harness, workFor(101, {}, `j${index}-`), { ...mine, module: `m${index % 11}` }))
  }
  await harness.runFor(minute)
  for (const job of opened) assert.deepEqual((await stateOf(harness, job)).counts, { delivered: 101 })
  assert.equal(queueOf(harness), 0)
  await harness.check()
  await harness.stop()
})

test('a job that was open when the process ended resumes, and keeps its reserved capacity in between', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-jobs-'))
  const options = { file: join(folder, 'sluice.db'), policy, config: tenants({ queue: 310 }) }
  let steps = 0
  const harness = await createHarness({
    ...options,
    wrap: (store) =>
      failing(store, ({ jobs, accept }) => jobs !== undefined && accept !== undefined && ++steps > 3),
  })
  const job = await open(harness, workFor(300))
  await harness.runFor(500)
  assert.deepEqual(await stateOf(harness, job), {
    status: 'running',
    taken: 60,
    counts: { delivered: 60 },
    refused: [],
  })
  assert.equal(queueOf(harness), 240)
  assert.equal(await codeOf(open(harness, workFor(101))), 'QUEUE_FULL')
  assert.equal(harness.gateway.jobs.running(), 1)
  await harness.stop()
  const again = await createHarness({ ...options, start: harness.start + second })
  await again.runFor(second)
  assert.deepEqual(await stateOf(again, job), {
    status: 'done',
    taken: 300,
    counts: { delivered: 300 },
    refused: [],
  })
  const ids = new Set([...harness.sent(), ...again.sent()].map(({ id }) => id))
  assert.equal(ids.size, 300)
  assert.equal(queueOf(again), 0)
  await again.stop()
  rmSync(folder, { recursive: true })
})

test('a step of a job takes 32 KiB of its recipients’ own data at most', async () => {
  const taken: number[] = []
  const harness = await createHarness({
    policy,
    wrap: (store) =>
      failing(store, ({ accept = [] }) => {
        taken.push(accept.reduce((sum, { data }) => sum + JSON.stringify(data).length, 0))
        return false
      }),
  })
  const work = workFor(120)
  const recipients = work.recipients.map((each) => ({ ...each, data: { text: 'x'.repeat(7_900) } }))
  const given = { ...work, recipients }
  const bytes = JSON.stringify(given).length
  const job = await harness.done(harness.gateway.jobs.open({ caller: mine, work: given, bytes, refused: [] }))
  await harness.runFor(second)
  assert.equal((await stateOf(harness, job)).taken, 120)
  const most = Math.max(...taken)
  assert.ok(most > 2 ** 14 && most <= 2 ** 15, `${most} bytes in one step`)
  await harness.stop()
})

test('a temporary failure is retried, and a recipient that cannot be accepted even alone is refused', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-jobs-'))
  let full = true
  const harness = await createHarness({
    file: join(folder, 'sluice.db'),
    policy,
    wrap: (store) =>
      failing(store, ({ accept }) => {
        if (accept?.some(({ to }) => to.id === 'r33') === true) throw new TypeError('cannot be bound')
        return full && accept !== undefined
      }),
  })
  const refusal = { recipient: 'eve', code: 'INVALID_REQUEST', detail: 'no address' }
  const job = await open(harness, workFor(110), mine, [refusal])
  await harness.runFor(5 * second)
  assert.deepEqual((await stateOf(harness, job)).taken, 1)
  full = false
  await harness.runFor(5 * second)
  const { status, taken, counts, refused } = await stateOf(harness, job)
  assert.deepEqual([status, taken, counts], ['done', 111, { delivered: 109 }])
  assert.deepEqual(
    refused.map(({ recipient, code }) => [recipient, code]),
    [
      ['eve', 'INVALID_REQUEST'],
      ['r33', 'INTERNAL'],
    ],
  )
  assert.equal(queueOf(harness), 0)
  await harness.check()
  await harness.stop()
  rmSync(folder, { recursive: true })
})

test('a job goes on for a tenant that has fewer places for what waits than one step needs', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', per: ['tenant'], max: ['5/min'], over: 'delay' }],
    },
    config: tenants({ waiting: 5 }),
  })
  const job = await open(harness, workFor(45))
  await harness.runFor(15 * minute)
  const { status, counts, refused } = await stateOf(harness, job)
  assert.deepEqual({ status, counts, refused }, { status: 'done', counts: { delivered: 45 }, refused: [] })
  await harness.check()
  await harness.stop()
})

test('a job that is opened while the process starts is in its lane once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-jobs-'))
  const harness = await createHarness({
    file: join(folder, 'sluice.db'),
    policy,
    wrap: (store) => failing(store, ({ accept }) => accept !== undefined),
  })
  await open(harness, workFor(150))
  await harness.done(harness.gateway.startStages())
  assert.equal(harness.gateway.jobs.running(), 1)
  await harness.stop()
  rmSync(folder, { recursive: true })
})

test('items of a job are collected in digests and counted as merged', async () => {
  const digesting = {
    version: 1,
    limits: [],
    digests: [
      {
        name: 'd',
        for: { category: 'activity' },
        window: '60min',
        minItems: 2,
        maxItems: 50,
        template: 'new-comment',
      },
    ],
  }
  const harness = await createHarness({ policy: digesting })
  const work = workFor(60, { category: 'activity' })
  const job = await open(harness, {
    ...work,
    recipients: [...work.recipients, ...work.recipients.map((to) => ({ ...to, data: { n: 2 } }))],
  })
  await harness.runFor(second)
  assert.deepEqual((await stateOf(harness, job)).counts, { digesting: 120 })
  await harness.runFor(2 * hour)
  assert.deepEqual((await stateOf(harness, job)).counts, { merged: 120 })
  await harness.check()
  await harness.stop()
})

test('a recipient who is erased while a batch runs gets nothing of the rest of it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-job-erasure-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'sluice.db')
  const harness = await createHarness({ policy, file })
  const opening = harness.gateway.jobs.open({ caller: mine, work: workFor(300), refused: [] })
  const erasing = opening.then(() =>
    Promise.all(['r250', 'r251', 'r299'].map((id) => harness.gateway.erase('default', id))),
  )
  const job = await harness.done(opening)
  await harness.done(erasing)
  await harness.runFor(minute)
  const { status, counts, refused } = await stateOf(harness, job)
  assert.deepEqual([status, counts], ['done', { delivered: 297 }])
  assert.deepEqual(
    refused.map(({ recipient, code }) => [recipient.startsWith('erased:'), code]),
    [
      [true, 'NOT_FOUND'],
      [true, 'NOT_FOUND'],
      [true, 'NOT_FOUND'],
    ],
  )
  assert.equal(harness.sent({ recipient: 'r250' }).length, 0)
  await harness.check()
  await harness.stop()
})
