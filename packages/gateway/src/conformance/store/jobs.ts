/** Background batches in a store: each step is taken once, together with the notifications that it accepts. */
import assert from 'node:assert/strict'
import type { Job, Refusal } from '../../model.ts'
import { advance } from '../../model.ts'
import type { JobWork, StoredAnswer } from '../../ports.ts'
import { epoch, settled, someJob, someNotification } from './sample.ts'
import type { StoreCapabilities, Test } from './suite.ts'
import { agree, applied, conflict, ids, must } from './suite.ts'

const work: JobWork = {
  message: { channel: 'email', category: 'product', priority: 'normal', data: { post: '“é” 👋' } },
  recipients: [{ id: 'ada', email: 'ada@example.com', data: { deep: [1, { two: null }] } }, { id: 'bob' }],
}
const refusal: Refusal = { recipient: 'eve', code: 'INVALID_REQUEST', detail: 'has no address' }
const step = (before: Job, patch: Partial<Job>) =>
  ({ kind: 'move', before, after: { ...before, ...patch } }) as const
const member = (job: Job, patch = {}) => someNotification({ job: job.id, ...patch })

export function jobs(test: Test, capabilities: StoreCapabilities): void {
  test('returns a job and its work unchanged, to its tenant only', async (store) => {
    const job = someJob({ refused: [refusal], taken: 1 })
    await must(store, { jobs: [{ kind: 'open', job, work }] })
    assert.deepEqual(await store.job('acme', job.id), job)
    assert.deepEqual(await store.jobWork(job), work)
    assert.deepEqual(await store.runningJobs(), [job])
    assert.equal(await store.job('other', job.id), undefined)
    assert.equal(await store.jobWork({ ...job, tenant: 'other' }), undefined)
    assert.equal(await store.job('acme', 'unknown'), undefined)
    assert.deepEqual(await store.jobMembers({ ...job, id: 'unknown' }), [])
  })

  test('keeps a job without work as ended', async (store) => {
    const job = someJob({ status: 'done', total: 1, taken: 1, refused: [refusal] })
    await must(store, { jobs: [{ kind: 'open', job, work: { ...work, recipients: [] } }] })
    assert.deepEqual(await store.job('acme', job.id), job)
    assert.deepEqual(await store.runningJobs(), [])
    assert.equal(await store.jobWork(job), undefined)
  })

  test('moves a job in one commit with the notifications that it accepts, and drops its work at the end', async (store) => {
    const job = someJob()
    await must(store, { jobs: [{ kind: 'open', job, work }] })
    const first = step(job, { taken: 2, refused: [refusal] })
    const accept = [member(job)]
    await must(store, { accept, jobs: [first] })
    assert.deepEqual(await store.job('acme', job.id), first.after)
    assert.deepEqual(await store.jobWork(job), work)
    const last = step(first.after, { taken: 4, status: 'done' })
    await must(store, { accept: [member(job), member(job)], jobs: [last] })
    assert.deepEqual(await store.runningJobs(), [])
    assert.equal(await store.jobWork(job), undefined)
    assert.equal((await store.jobMembers(job)).length, 3)
    assert.deepEqual(await store.notification('acme', accept[0]!.id), accept[0])
  })

  test('takes each step of a job once: a concurrent second one is a conflict and accepts nothing', async (store) => {
    const job = someJob()
    await must(store, { jobs: [{ kind: 'open', job, work }] })
    const [one, two] = [member(job), member(job)]
    const results = await Promise.all([
      store.commit({ accept: [one], jobs: [step(job, { taken: 1 })] }),
      store.commit({ accept: [two], jobs: [step(job, { taken: 2 })] }),
      store.commit({ jobs: [step(job, { status: 'cancelled' })] }),
      store.commit({ jobs: [{ kind: 'open', job, work }] }),
    ])
    assert.deepEqual(results, [
      applied,
      conflict('job', job.id),
      conflict('job', job.id),
      conflict('job', job.id),
    ])
    assert.deepEqual(ids(await store.jobMembers(job)), [one.id])
    assert.equal((await store.job('acme', job.id))?.taken, 1)
    const unknown = someJob()
    assert.deepEqual(await store.commit({ jobs: [step(unknown, { taken: 1 })] }), conflict('job', unknown.id))
  })

  test('accepts no more notifications of a cancelled job', async (store) => {
    const job = someJob()
    await must(store, { jobs: [{ kind: 'open', job, work }] })
    const cancelled = step(job, { status: 'cancelled' })
    await must(store, { jobs: [cancelled] })
    const late = member(job)
    assert.deepEqual(
      await store.commit({ accept: [late], jobs: [step(job, { taken: 1 })] }),
      conflict('job', job.id),
    )
    assert.equal(await store.notification('acme', late.id), undefined)
    assert.equal(await store.jobWork(job), undefined)
    await agree(store)
  })

  test('does not move a job when another part of the change conflicts', async (store) => {
    const job = someJob()
    const known = someNotification()
    await must(store, { accept: [known], jobs: [{ kind: 'open', job, work }] })
    const fresh = member(job)
    const change = { accept: [fresh, known], jobs: [step(job, { taken: 2 })] }
    assert.deepEqual(await store.commit(change), conflict('notification', known.id))
    assert.deepEqual(await store.job('acme', job.id), job)
    assert.deepEqual(await store.jobMembers(job), [])
  })

  test('opens a job atomically with the answer to its request', async (store) => {
    const answer: StoredAnswer = {
      tenant: 'acme',
      module: 'shop',
      method: 'POST',
      path: '/batch',
      key: 'k',
      requestHash: '',
      status: 202,
      body: '',
      createdAt: epoch,
    }
    const [first, second] = [someJob(), someJob()]
    await must(store, { answer, jobs: [{ kind: 'open', job: first, work }] })
    assert.deepEqual(
      await store.commit({ answer, jobs: [{ kind: 'open', job: second, work }] }),
      conflict('answer', 'k'),
    )
    assert.deepEqual(ids(await store.runningJobs()), [first.id])
  })

  test('counts the notifications of a job as their states move, and lists them', async (store) => {
    const job = someJob()
    const list = [member(job), member(job), member(job)]
    const bloomFilter = [someNotification(), member(someJob())]
    await must(store, { accept: [...list, ...bloomFilter], jobs: [{ kind: 'open', job, work }] })
    await must(store, {
      moves: [settled(list[1]!, epoch), advance(list[2]!, [{ at: epoch, status: 'cancelled' }])],
    })
    const members = await store.jobMembers(job)
    assert.deepEqual(
      members.map(({ id, status }) => [id, status]),
      [
        [list[0]!.id, 'queued'],
        [list[1]!.id, 'delivered'],
        [list[2]!.id, 'cancelled'],
      ],
    )
    const page = await store.list({ tenant: 'acme', job: job.id, limit: 2 })
    assert.deepEqual(ids(page.items), [list[2]!.id, list[1]!.id])
    const rest = await store.list({ tenant: 'acme', job: job.id, limit: 2, cursor: page.nextCursor! })
    assert.deepEqual(ids(rest.items), [list[0]!.id])
    assert.deepEqual((await store.list({ tenant: 'other', job: job.id, limit: 2 })).items, [])
    const both = { tenant: 'acme', job: job.id, recipient: 'user-1', statuses: ['queued'], limit: 9 } as const
    assert.deepEqual(ids((await store.list(both)).items), [list[0]!.id])
  })

  test('prunes an old job with the last of its notifications, and none that runs', async (store) => {
    const old = epoch - 1_000
    const [running, done, empty] = [1, 2, 3].map(() => someJob({ createdAt: old })) as [Job, Job, Job]
    const young = someJob()
    const last = member(done, { createdAt: old })
    await must(store, {
      accept: [last],
      jobs: [running, done, empty, young].map((job) => ({ kind: 'open', job, work })),
    })
    await must(store, { jobs: [done, empty, young].map((job) => step(job, { status: 'cancelled' })) })
    const before = { answers: 0, notifications: epoch }
    assert.equal((await store.prune(before)).rows, 1)
    assert.equal(await store.job('acme', empty.id), undefined)
    for (const kept of [running, done, young]) assert.ok(await store.job('acme', kept.id))
    await must(store, { moves: [settled(last, old)] })
    assert.equal((await store.prune(before)).rows, 2)
    assert.equal(await store.job('acme', done.id), undefined)
    assert.deepEqual(await store.jobWork(running), work)
  })

  if (capabilities.durable) {
    test('resumes a job at its step after it was closed and opened', async (store, context) => {
      const [first, second] = [someJob(), someJob({ createdAt: epoch - 1 })]
      await must(store, { jobs: [first, second].map((job) => ({ kind: 'open', job, work })) })
      const on = step(first, { taken: 1 })
      await must(store, { accept: [member(first)], jobs: [on] })
      const again = await context.reopen()
      assert.deepEqual(await again.runningJobs(), [second, on.after])
      assert.deepEqual(await again.jobWork(first), work)
      assert.equal((await again.jobMembers(first)).length, 1)
    })
  }
}
