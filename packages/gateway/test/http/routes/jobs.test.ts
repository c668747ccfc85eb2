/** The answers about a background batch, and their access rules. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '../../../src/http/identity.ts'
import type { Job } from '../../../src/model.ts'
import { startStub } from '../stub.ts'

const job: Job = {
  id: 'j-1',
  tenant: 'acme',
  module: 'shop',
  createdAt: 0,
  status: 'running',
  total: 5,
  taken: 4,
  refused: [{ recipient: 'eve', code: 'INVALID_REQUEST', detail: 'no address' }],
}

test('a job shows its progress, the current states of its notifications, and the refused recipients', async () => {
  const stub = await startStub()
  const as = { 'x-tenant-id': 'acme', 'x-module-id': 'shop' }
  stub.jobs.set(job.id, job)
  for (const id of ['a', 'b', 'c']) await stub.ask('POST', '/notifications', message(id), as)
  const ids = [...stub.notifications.keys()]
  for (const id of ids) stub.notifications.set(id, { ...stub.notifications.get(id)!, job: job.id })
  stub.live.set(ids[1]!, { notification: stub.notifications.get(ids[1]!)!, status: 'sending', events: [] })
  const { status, body } = await stub.ask('GET', '/jobs/j-1', undefined, as)
  assert.equal(status, 200)
  assert.deepEqual(body, {
    jobId: 'j-1',
    status: 'running',
    total: 5,
    counts: { queued: 2, sending: 1 },
    refused: job.refused,
  })
  assert.equal((await stub.ask('GET', `/notifications/${ids[0]}`, undefined, as)).body.jobId, 'j-1')
})

test('a notification of a job that has ended on record counts as ended, though this process still holds it', async () => {
  const stub = await startStub()
  const as = { 'x-tenant-id': 'acme', 'x-module-id': 'shop' }
  stub.jobs.set(job.id, job)
  await stub.ask('POST', '/notifications', message('a'), as)
  const [held] = [...stub.notifications.values()]
  // Another process has cancelled it.
  stub.notifications.set(held!.id, { ...held!, job: job.id, status: 'cancelled' })
  stub.live.set(held!.id, { notification: held!, status: 'queued', events: [] })
  assert.deepEqual((await stub.ask('GET', '/jobs/j-1', undefined, as)).body.counts, { cancelled: 1 })
})

test('a job without refusals has no list of them, and a finished one is done', async () => {
  const stub = await startStub()
  stub.jobs.set('j-2', { ...job, id: 'j-2', tenant: 'default', status: 'done', refused: [] })
  const { body } = await stub.ask('GET', '/jobs/j-2')
  assert.deepEqual(body, { jobId: 'j-2', status: 'done', total: 5, counts: {} })
})

test('DELETE ends a job, again too, and not one that was sent or has ended', async () => {
  const stub = await startStub()
  stub.jobs.set('j-3', { ...job, id: 'j-3', tenant: 'default' })
  stub.jobs.set('j-4', { ...job, id: 'j-4', tenant: 'default', status: 'done' })
  assert.equal((await stub.ask('DELETE', '/jobs/j-3')).status, 204)
  assert.equal((await stub.ask('DELETE', '/jobs/j-3')).status, 204)
  assert.equal((await stub.ask('GET', '/jobs/j-3')).body.status, 'cancelled')
  const { status, body } = await stub.ask('DELETE', '/jobs/j-4')
  assert.deepEqual([status, body.code], [409, 'NOT_CANCELLABLE'])
})

test('no other tenant, and no other module without the operator scope, finds or ends a job', async () => {
  let caller: Identity = { tenant: 'acme', module: 'shop', scopes: new Set() }
  const stub = await startStub({ parts: { authenticate: () => caller } })
  stub.jobs.set(job.id, job)
  const answers = async (as: Identity): Promise<readonly number[]> => {
    caller = as
    const headers = { 'x-request-id': 'one' }
    const got = await stub.ask('GET', '/jobs/j-1', undefined, headers)
    const unknown = await stub.ask('GET', '/jobs/unknown', undefined, headers)
    if (got.status === 404) assert.equal(got.text, unknown.text, 'it looks like one that does not exist')
    return [got.status, (await stub.ask('DELETE', '/jobs/j-1')).status]
  }
  const admin = new Set(['sluice:admin'])
  assert.deepEqual(await answers({ tenant: 'other', module: 'shop', scopes: admin }), [404, 404])
  assert.deepEqual(await answers({ tenant: 'acme', module: 'mail', scopes: new Set() }), [404, 404])
  assert.equal(stub.jobs.get('j-1')?.status, 'running')
  assert.deepEqual(await answers({ tenant: 'acme', module: 'shop', scopes: new Set() }), [200, 204])
  assert.deepEqual(await answers({ tenant: 'acme', module: 'mail', scopes: admin }), [200, 204])
})

test('lists and answers hide a job from other modules of the tenant', async () => {
  let caller: Identity = { tenant: 'acme', module: 'shop', scopes: new Set() }
  const stub = await startStub({ parts: { authenticate: () => caller } })
  stub.jobs.set(job.id, job)
  await stub.ask('POST', '/notifications', message('a'))
  const [id] = [...stub.notifications.keys()] as [string]
  stub.notifications.set(id, { ...stub.notifications.get(id)!, job: job.id })
  const seen = async (as: Identity) => {
    caller = as
    const places = [`/notifications/${id}`, '/notifications', '/recipients/a/timeline']
    const [one, list, timeline] = await Promise.all(places.map((place) => stub.ask('GET', place)))
    const members = await stub.ask('GET', '/notifications?job=j-1')
    assert.equal(list!.body.items.length, 1, 'the notification itself is the tenant’s')
    return [
      one!.body.jobId,
      list!.body.items[0]!.jobId,
      timeline!.body.items[0]!.jobId,
      members.body.items.length,
    ]
  }
  const all = ['j-1', 'j-1', 'j-1', 1]
  assert.deepEqual(await seen({ tenant: 'acme', module: 'shop', scopes: new Set() }), all)
  assert.deepEqual(await seen({ tenant: 'acme', module: 'mail', scopes: new Set(['sluice:admin']) }), all)
  const none = [undefined, undefined, undefined, 0]
  assert.deepEqual(await seen({ tenant: 'acme', module: 'mail', scopes: new Set() }), none)
})

const message = (id: string) => ({
  recipient: { id, email: `${id}@example.com` },
  channel: 'email',
  content: { subject: 'Hello', text: 'World' },
})
