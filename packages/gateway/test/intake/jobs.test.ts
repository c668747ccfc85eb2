/** Batches in the background in a whole gateway, in virtual time: to the end, over restarts, cancelled, several at once. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Caller } from '../../src/doors.ts'
import { SluiceError } from '../../src/errors.ts'
import type { Job, Priority, Refusal, Status } from '../../src/model.ts'
import type { Change, JobWork, Store } from '../../src/ports.ts'
import { createScripted, delivered, throttled } from '../delivery/scripted.ts'
import { createHarness, densest, type Harness, hour, minute, second } from '../harness.ts'

const policy = { version: 1, limits: [] }
const mine: Caller = { tenant: 'default', module: 'default' }
const tenants = (more: object) => ({
  tenants: { default: { rate: 'unlimited', modules: 'unlimited', ...more } },
})

function workFor(count: number, message: Partial<JobWork['message']> = {}, name = 'r'): JobWork {
  return {
    message: {
      channel: 'email',
      category: 'product',
      priority: 'normal',
      content: { subject: 'Hello', text: 'World' },
      ...message,
    },
    recipients: Array.from({ length: count }, (_, index) => ({
      id: `${name}${index}`,
      email: `${name}${index}@example.com`,
    })),
  }
}

const open = (
  harness: Harness,
  work: JobWork,
  caller = mine,
  refused: readonly Refusal[] = [],
): Promise<Job> => harness.done(harness.gateway.jobs.open({ caller, work, refused }))

async function stateOf(harness: Harness, { tenant, id }: Job) {
  const job = (await harness.gateway.store.job(tenant, id))!
  const counts: Partial<Record<Status, number>> = {}
  for (const { status } of await harness.gateway.store.jobMembers(job))
    counts[status] = (counts[status] ?? 0) + 1
  return { status: job.status, taken: job.taken, counts, refused: job.refused }
}

const queueOf = ({ gateway }: Harness): number => gateway.ledger.occupancy('default').queue

async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'done',
    (error: unknown) => (error instanceof SluiceError ? error.code : String(error)),
  )
}

/** Refuses the commits that it is told to, as a full disk would. */
function failing(store: Store, fails: (change: Change) => boolean): Store {
  return new Proxy(store, {
    get(of, name) {
      const value = Reflect.get(of, name) as unknown
      if (name === 'commit') {
        return async (change: Change) => {
          if (fails(change)) throw new SluiceError('STORE_UNAVAILABLE', 'Full.', { retryAfterMs: second })
          return of.commit(change)
        }
      }
      return typeof value === 'function' ? value.bind(of) : value
    },
  })
}

test('a batch of 500 against 100/min leaves as 100 in every rolling minute and is complete after five', async (t) => {
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

test('two jobs at once are worked off in turns, and a caller who comes meanwhile does not wait for them', async () => {
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

test('jobs of more modules than take turns at once, several each, all come to their end', async () => {
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

test('a job that was open when the process ended goes on where it was, and holds its places in between', async () => {
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

test('places of whom a job still has to accept are taken from its opening to its end, also by a restart', async () => {
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
  // The queue is full but for fifty, and the job got all of its own places.
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

test('a job that fills the queue to its last place is accepted to its last recipient, a critical one above it', async () => {
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

test('a cancelled job accepts nothing more, what waits of it is cancelled, and its places are free', async () => {
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
  // The places in the window are free too: the next in line gets the first of them.
  assert.equal((await harness.post()).dueAt, harness.start + minute + 20)
  await harness.runFor(hour)
  assert.equal(harness.sent().length, 101)
  await harness.check()
  await harness.stop()
  rmSync(folder, { recursive: true })
})

test('a job is cancelled in the middle of its steps: what was accepted by then ends, and nothing comes after', async () => {
  const harness = await createHarness({ policy, config: tenants({ rate: '1/min' }) })
  const opening = harness.gateway.jobs.open({ caller: mine, work: workFor(500), refused: [] })
  const job = await harness.done(
    opening.then(async (job) => {
      // A few steps in, while the next is on its way.
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

test('a job of which something waits can be cancelled after it is done; one of which nothing does cannot', async () => {
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

test('what fails for a while is tried again, and what cannot be accepted even alone is refused', async () => {
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

test('a job that is opened while the process starts stands in its lane once', async () => {
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

test('a job of which everybody is refused is done at once', async () => {
  const harness = await createHarness({ policy })
  const refused = [{ recipient: 'eve', code: 'INVALID_REQUEST', detail: 'no address' }]
  const job = await open(harness, workFor(0), mine, refused)
  assert.deepEqual(await stateOf(harness, job), { status: 'done', taken: 1, counts: {}, refused })
  assert.equal(await codeOf(harness.done(harness.gateway.jobs.cancel(job))), 'NOT_CANCELLABLE')
  await harness.stop()
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
