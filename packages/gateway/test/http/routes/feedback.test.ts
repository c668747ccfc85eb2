/** Reports of a caller's own system, and invalid addresses as recipients show them. */
import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { SluiceError } from '../../../src/errors.ts'
import type { Report, Reporter } from '../../../src/feedback/report.ts'
import { operatorScope } from '../../../src/http/identity.ts'
import { startStub } from '../stub.ts'

const reported: { readonly reports: readonly Report[]; readonly by: Reporter }[] = []
let before: () => Promise<void> = async () => {}
const stub = await startStub({
  parts: {
    feedback: {
      async report(reports, by) {
        await before()
        reported.push({ reports, by })
      },
    },
  },
})
beforeEach(() => {
  reported.length = 0
})

const path = '/feedback'
const complaint = { type: 'complaint', notificationId: 'n1', at: '2026-11-22T10:00:00Z' }

test('one event or a list is taken, and the answer counts them', async () => {
  const one = await stub.ask('POST', path, complaint, { 'x-tenant-id': 'acme' })
  assert.deepEqual([one.status, one.text], [202, '{"accepted":1}'])
  const bounce = {
    ...{ type: 'bounce', providerMessageId: 'SM1', at: '2026-11-22T10:00:01.5+01:00' },
    ...{ permanent: true, detail: '550' },
  }
  const list = await stub.ask('POST', path, [complaint, bounce], { 'x-tenant-id': 'acme' })
  assert.deepEqual([list.status, list.text], [202, '{"accepted":2}'])
  const at = Date.UTC(2026, 10, 22, 10)
  const bouncedAt = at - 3_600_000 + 1_500
  assert.deepEqual(reported, [
    { reports: [{ ...complaint, at, toldAt: at }], by: { tenant: 'acme' } },
    {
      reports: [
        { ...complaint, at, toldAt: at },
        { ...bounce, at: bouncedAt, toldAt: bouncedAt },
      ],
      by: { tenant: 'acme' },
    },
  ])
})

test('what is no event is refused by the name of the field, and nothing of the list is taken', async () => {
  const { at: _, ...timeless } = complaint
  const { notificationId: _id, ...nameless } = complaint
  for (const [body, field] of [
    [{ ...complaint, type: 'spam' }, '/type'],
    [timeless, '/at'],
    [{ ...complaint, at: 'yesterday' }, '/at'],
    [{ ...complaint, permanent: 'yes' }, '/permanent'],
    [{ ...complaint, tenant: 'other' }, '/tenant'],
    [nameless, ''],
    [[complaint, nameless], '/1'],
    [[complaint, { ...complaint, type: 7 }], '/1/type'],
    [[], ''],
    ['"complaint"', ''],
    [Array.from({ length: 1_001 }, () => complaint), ''],
  ] as const) {
    const { status, body: answer } = await stub.ask('POST', path, body)
    assert.deepEqual([status, answer.code, answer.errors[0]?.path], [400, 'INVALID_REQUEST', field])
  }
  assert.deepEqual(reported, [])
})

test('a token without the scope is refused, that of operators too', async () => {
  const scopes = new Set([operatorScope])
  const guarded = await startStub({
    parts: { authenticate: () => ({ tenant: 'acme', module: 'shop', scopes }) },
  })
  const { status, headers, body } = await guarded.ask('POST', path, complaint)
  assert.deepEqual([status, body.code], [403, 'FORBIDDEN'])
  assert.match(headers.get('www-authenticate') ?? '', /scope="sluice:feedback"/)
  await guarded.close()
})

test('an Idempotency-Key gets the same answer, and another body of it is refused', async () => {
  const key = { 'idempotency-key': 'k1' }
  assert.equal((await stub.ask('POST', path, complaint, key)).status, 202)
  assert.equal((await stub.ask('POST', path, complaint, key)).status, 202)
  assert.equal((await stub.ask('POST', path, [complaint], key)).body.code, 'IDEMPOTENCY_MISMATCH')
})

test('a store that is away is told, and the reporter may try again', async (t) => {
  t.after(() => {
    before = async () => {}
  })
  before = async () => {
    throw new SluiceError('STORE_UNAVAILABLE', 'The store is away.', { retryAfterMs: 1_000 })
  }
  const { status, headers } = await stub.ask('POST', path, complaint)
  assert.deepEqual([status, headers.get('retry-after')], [503, '1'])
})

const marked = {
  ...{ tenant: 'default', id: 'ada', email: 'ada@example.com' },
  invalid: [
    { channel: 'email', address: 'ada@example.com', at: Date.UTC(2026, 10, 22), detail: '550' } as const,
  ],
}
const shown = [{ channel: 'email', at: '2026-11-22T00:00:00.000Z', detail: '550' }]

test('a recipient shows the channels whose address is invalid, and not the address a second time', async () => {
  stub.recipients.set('default/ada', marked)
  const { status, body } = await stub.ask('GET', '/recipients/ada')
  assert.deepEqual([status, body], [200, { id: 'ada', email: 'ada@example.com', invalid: shown }])
})

test('only a different address lifts the mark of an invalid one', async () => {
  const url = '/recipients/ada'
  stub.recipients.set('default/ada', marked)
  const put = await stub.ask('PUT', url, { email: 'ada@example.com', locale: 'it-IT' })
  assert.deepEqual(put.body.invalid, shown)
  const patch = { type: 'application/merge-patch+json' }
  assert.deepEqual((await stub.ask('PATCH', url, { locale: null })).body.invalid, shown, patch.type)
  assert.deepEqual((await stub.ask('PATCH', url, { email: null })).body.invalid, shown, 'no address at all')
  assert.deepEqual((await stub.ask('PUT', url, { email: 'ADA@example.com' })).body.invalid, shown)
  assert.equal((await stub.ask('PATCH', url, { email: 'ada@example.org' })).body.invalid, undefined)
  stub.recipients.set('default/ada', marked)
  assert.equal((await stub.ask('PATCH', url, { invalid: null })).body.code, 'INVALID_REQUEST')
})
