/** The answer to a batch: one result for each recipient, whatever is wrong with the others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { joinedPayload } from '../../../src/content.ts'
import { SluiceError } from '../../../src/errors.ts'
import { startStub } from '../stub.ts'

const stub = await startStub()
const post = (body: unknown, headers?: Record<string, string>) =>
  stub.ask('POST', '/notifications/batch', body, headers)

const content = { subject: 'Hello', text: 'World' }
const everybody = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: `user-${index}`, email: `user-${index}@example.com` }))
const batch = { recipients: everybody(3), channel: 'email', content }

test('each recipient has a result, in request order', async () => {
  const { status, body } = await post(batch)
  assert.equal(status, 202)
  const { results } = body
  assert.deepEqual(
    results.map(({ recipient, status }) => [recipient, status]),
    [
      ['user-0', 'queued'],
      ['user-1', 'queued'],
      ['user-2', 'queued'],
    ],
  )
  assert.ok(results.every(({ notificationId }) => stub.notifications.has(notificationId)))
  assert.ok(results.every(({ decision }) => decision.outcome === 'send'))
  assert.ok(results.every(({ sendAt }) => sendAt === null))
})

test('a recipient delayed by a tenant limit has a result like any other', async () => {
  stub.verdict = () => ({ status: 'scheduled', queuedBehind: 'tenant' })
  const { status, body } = await post(batch)
  stub.verdict = () => ({})
  assert.deepEqual([status, body.results.map((result) => result.status)], [202, Array(3).fill('scheduled')])
})

test("a recipient's own data overrides the common data", async () => {
  const [first, second] = everybody(2)
  await post({
    ...batch,
    content: undefined,
    template: 'new-comment',
    data: { post: 'common', site: 's' },
    recipients: [{ ...first, data: { post: 'own' } }, second],
  })
  assert.deepEqual(
    stub.drafts.slice(-2).map((draft) => joinedPayload(draft, draft.shared).data),
    [
      { post: 'own', site: 's' },
      { post: 'common', site: 's' },
    ],
  )
  assert.deepEqual(stub.drafts.at(-2)?.to, first)
})

test('a misspelt recipient or one without address is refused, the others are accepted', async () => {
  await stub.ask('PUT', '/recipients/stored', { email: 'stored@example.com' })
  const before = stub.drafts.length
  const { status, body } = await post({
    ...batch,
    recipients: [
      'stored',
      { id: 'misspelt', email: 'nobody' },
      { id: 'nowhere' },
      { id: 'lost', email: 'lost@example.com', timeZone: 'Mars/Olympus' },
      { id: 'deep', email: 'deep@example.com', data: { a: 'x'.repeat(66_000) } },
      everybody(1)[0],
    ],
  })
  assert.equal(status, 202)
  assert.deepEqual(
    body.results.map(({ recipient, code, status }) => [recipient, code ?? status]),
    [
      ['stored', 'queued'],
      ['misspelt', 'INVALID_REQUEST'],
      ['nowhere', 'INVALID_REQUEST'],
      ['lost', 'INVALID_REQUEST'],
      ['deep', 'PAYLOAD_TOO_LARGE'],
      ['user-0', 'queued'],
    ],
  )
  assert.match(body.results[1]!.detail, /^\/recipients\/1\/email must be one email address/)
  assert.equal(stub.drafts.length, before + 2)
})

test('all misspelt recipients are found, however many they are', async () => {
  const recipients = everybody(100).map((recipient) => ({
    ...recipient,
    email: 'x',
    phone: 'y',
    timeZone: 'z',
  }))
  const before = stub.drafts.length
  const { body } = await post({ ...batch, recipients })
  assert.ok(body.results.every(({ code }) => code === 'INVALID_REQUEST'))
  assert.equal(stub.drafts.length, before)
})

const refused: readonly (readonly [what: string, change: object, path: string])[] = [
  ['no recipient', { recipients: [] }, '/recipients'],
  ['no list of recipients', { recipients: 'user-1' }, '/recipients'],
  [
    'a field that no recipient has',
    { recipients: [...everybody(2), { id: 'x', fax: '1' }] },
    '/recipients/2/fax',
  ],
  ['a number for an address', { recipients: [{ id: 'x', email: 5 }] }, '/recipients/0/email'],
  ['a recipient without id', { recipients: [{ email: 'a@example.com' }] }, '/recipients/0/id'],
  ['an id that is not printable', { recipients: ['a\nb'] }, '/recipients/0'],
  ['the field of a single notification', { recipient: 'x' }, '/recipient'],
  ['a channel that nobody knows', { channel: 'fax' }, '/channel'],
  ['an unknown template', { content: undefined, template: 'no-such' }, '/template'],
]

for (const [what, change, path] of refused) {
  test(`${what} refuses the batch as a whole`, async () => {
    const before = stub.drafts.length
    const { status, body } = await post({ ...batch, ...change })
    assert.deepEqual([status, body.code], [400, 'INVALID_REQUEST'])
    assert.ok(
      body.errors.some((error) => error.path === path),
      JSON.stringify(body.errors),
    )
    assert.equal(stub.drafts.length, before)
  })
}

test('up to 100 recipients are answered one by one, up to 500 by a job, more are too many', async () => {
  assert.equal((await post({ ...batch, recipients: everybody(100) })).body.results.length, 100)
  for (const count of [101, 500]) {
    const before = stub.drafts.length
    const { status, body } = await post({ ...batch, recipients: everybody(count) })
    assert.deepEqual([status, Object.keys(body)], [202, ['jobId']])
    assert.equal(stub.opened.at(-1)?.work.recipients.length, count)
    assert.equal(stub.drafts.length, before, 'nothing is admitted before the answer')
  }
  const { status, body } = await post({ ...batch, recipients: everybody(501) })
  assert.deepEqual([status, body.code], [400, 'BATCH_LIMIT_EXCEEDED'])
  assert.match(body.detail, /at most 500/)
})

test('a job gets the message, the accepted recipients, and the refused ones', async () => {
  const own = { id: 'own', email: 'own@example.com', data: { post: 'own' } }
  const lost = { id: 'nowhere' }
  const misspelt = { id: 'misspelt', email: 'nobody' }
  const recipients = [own, lost, ...everybody(100), misspelt]
  await post({ ...batch, data: { site: 's' }, recipients }, { 'x-tenant-id': 'acme', 'x-module-id': 'shop' })
  const { caller, work, refused } = stub.opened.at(-1)!
  assert.deepEqual([caller.tenant, caller.module], ['acme', 'shop'])
  assert.deepEqual(work.message, {
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content,
    data: { site: 's' },
  })
  assert.deepEqual(work.recipients, [own, ...everybody(100)])
  assert.deepEqual(
    refused.map(({ recipient, code }) => [recipient, code]),
    [
      ['nowhere', 'INVALID_REQUEST'],
      ['misspelt', 'INVALID_REQUEST'],
    ],
  )
  assert.match(refused[0]!.detail, /^\/recipients\/1\/email is required/)
})

test('an invalid message refuses a job too, and so does a full queue', async () => {
  const before = stub.opened.length
  const large = { ...batch, recipients: everybody(200) }
  assert.equal((await post({ ...large, channel: 'fax' })).status, 400)
  assert.equal((await post({ ...large, recipients: [...everybody(200), { id: 'x', fax: '1' }] })).status, 400)
  stub.before = () => {
    throw new SluiceError('QUEUE_FULL', 'Full.', { retryAfterMs: 5_000 })
  }
  const { status, headers } = await post(large)
  stub.before = () => {}
  assert.deepEqual([status, headers.get('retry-after')], [503, '5'])
  assert.equal(stub.opened.length, before)
})

test('a repeated job is the same job', async () => {
  const large = { ...batch, recipients: everybody(101) }
  const first = await post(large, { 'idempotency-key': 'job' })
  const second = await post(large, { 'idempotency-key': 'job' })
  assert.deepEqual(second.body, first.body)
  assert.equal(second.headers.get('idempotency-replayed'), 'true')
  const other = await post({ ...large, recipients: everybody(102) }, { 'idempotency-key': 'job' })
  assert.deepEqual([other.status, other.body.code], [422, 'IDEMPOTENCY_MISMATCH'])
})

test('a full queue refuses the batch as a whole', async () => {
  stub.before = () => {
    throw new SluiceError('QUEUE_FULL', 'Full.', { retryAfterMs: 5_000 })
  }
  const { status, headers } = await post(batch)
  stub.before = () => {}
  assert.deepEqual([status, headers.get('retry-after')], [503, '5'])
})

test('a batch may be as large as 8 MiB', async () => {
  const text = 'x'.repeat(60_000)
  const recipients = everybody(100).map((recipient) => ({ ...recipient, data: { text } }))
  assert.equal((await post({ ...batch, recipients })).status, 202)
  const { status, body } = await post(`{"recipients":["${'x'.repeat(8_388_608)}"]}`)
  assert.deepEqual([status, body.code], [413, 'PAYLOAD_TOO_LARGE'])
})

test('content times recipients is at most 256 MiB, and above it nothing is accepted', async () => {
  const drafts = stub.drafts.length
  const jobs = stub.opened.length
  const said = (bytes: number) => ({ html: 'x'.repeat(bytes - '{"html":""}'.length) })
  const per = (count: number) => Math.floor((256 * 2 ** 20) / count)
  for (const count of [40, 100, 500]) {
    const { status, body } = await post({
      ...batch,
      recipients: everybody(count),
      content: said(per(count) + 1),
    })
    assert.deepEqual([status, body.code], [413, 'PAYLOAD_TOO_LARGE'])
    assert.match(body.detail, /^content is \d+ bytes as JSON, times \d+ recipients/)
  }
  assert.deepEqual([stub.drafts.length, stub.opened.length], [drafts, jobs])
  assert.equal((await post({ ...batch, recipients: everybody(100), content: said(per(100)) })).status, 202)
})

test('a repeated batch gets the first answer', async () => {
  const first = await post(batch, { 'idempotency-key': 'b1' })
  const second = await post(batch, { 'idempotency-key': 'b1' })
  assert.deepEqual(second.body, first.body)
  assert.equal(second.headers.get('idempotency-replayed'), 'true')
})
