/** The routes of holds of notifications, and who may ask them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startStub } from '../stub.ts'

const now = Date.parse('2026-11-22T06:00:00Z')
const stub = await startStub()
stub.now = () => now

const until = '2026-11-22T09:00:00Z'

test('notifications are held until an instant, listed, and released', async () => {
  const body = { tenant: 'acme', channel: 'email', category: 'marketing', until, reason: 'wrong prices' }
  const put = await stub.ask('PUT', '/holds/no-marketing', body)
  const hold = {
    name: 'no-marketing',
    ...body,
    since: '2026-11-22T06:00:00.000Z',
    until: '2026-11-22T09:00:00.000Z',
  }
  assert.deepEqual([put.status, put.body], [200, hold])
  assert.deepEqual((await stub.ask('GET', '/holds')).body, { items: [hold], nextCursor: null })
  assert.equal((await stub.ask('DELETE', '/holds/no-marketing')).status, 204)
  assert.equal((await stub.ask('DELETE', '/holds/no-marketing')).body.code, 'NOT_FOUND')
  assert.deepEqual((await stub.ask('GET', '/holds')).body, { items: [], nextCursor: null })
})

test('a hold with a name, an instant or a filter that cannot be is refused at its field', async () => {
  const cases = [
    ['no marketing', { until, reason: 'r' }, '/name'],
    ['h', { until: '2026-11-22T05:00:00Z', reason: 'r' }, '/until'],
    ['h', { until, reason: 'r', channel: 'fax' }, '/channel'],
    ['h', { until, reason: 'r', account: 'a' }, '/account'],
    ['h', { until }, '/reason'],
  ] as const
  for (const [name, body, path] of cases) {
    const reply = await stub.ask('PUT', `/holds/${encodeURIComponent(name)}`, body)
    assert.deepEqual([reply.status, reply.body.errors[0]?.path], [400, path])
  }
  assert.equal((await stub.ask('DELETE', '/holds/email%2Fmain')).status, 400, 'the hold of an account')
})

test('only an operator sets holds, and who reads sees them', async () => {
  const scopes = new Set<string>()
  const caller = { tenant: 'acme', module: 'm', subject: 's', scopes, token: undefined }
  const guarded = await startStub({ parts: { authenticate: Object.assign(() => caller as never, {}) } })
  guarded.now = () => now
  const statuses = async () => [
    (await guarded.ask('GET', '/holds')).status,
    (await guarded.ask('PUT', '/holds/h', { until, reason: 'r' })).status,
    (await guarded.ask('DELETE', '/holds/h')).status,
    (await guarded.ask('PUT', '/pools/email/a/hold', { until, reason: 'r' })).status,
    (await guarded.ask('DELETE', '/pools/email/a/hold')).status,
  ]
  assert.deepEqual(await statuses(), [403, 403, 403, 403, 403])
  scopes.add('sluice:read')
  assert.deepEqual(await statuses(), [200, 403, 403, 403, 403])
  scopes.add('sluice:admin')
  assert.deepEqual(await statuses(), [200, 200, 204, 404, 404])
})
