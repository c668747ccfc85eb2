/** The answers about one notification: accepted, delayed, refused, read, listed, cancelled. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../../src/errors.ts'
import { email, message, startStub } from '../stub.ts'

const stub = await startStub()
const post = (body: unknown, headers?: Record<string, string>) =>
  stub.ask('POST', '/notifications', body, headers)

test('a notification is accepted with its id, state and decision', async () => {
  const { status, body } = await post({
    ...message,
    category: 'billing',
    priority: 'high',
    actor: 'author-7',
  })
  assert.equal(status, 202)
  assert.match(body.notificationId, /^n\d+$/)
  assert.equal(body.status, 'queued')
  assert.equal('sendAt' in body, false)
  assert.deepEqual(Object.keys(body.decision), ['outcome', 'at', 'policyVersion', 'rules'])
  assert.deepEqual(stub.drafts.at(-1), {
    to: email,
    channel: 'email',
    category: 'billing',
    priority: 'high',
    content: message.content,
    actor: 'author-7',
  })
})

test('category and priority have defaults, instants become numbers', async () => {
  await post({
    recipient: email,
    channel: 'email',
    template: 'new-comment',
    data: { post: 'x' },
    sendAt: '2099-11-22T10:00:00+01:00',
  })
  assert.deepEqual(stub.drafts.at(-1), {
    to: email,
    channel: 'email',
    category: 'product',
    priority: 'normal',
    template: 'new-comment',
    data: { post: 'x' },
    sendAt: Date.UTC(2099, 10, 22, 9),
  })
})

test('a delayed notification shows until when, in ISO with milliseconds', async () => {
  stub.verdict = () => ({
    status: 'scheduled',
    decision: {
      outcome: 'delay',
      reason: 'quiet_hours',
      limit: 'l',
      at: Date.UTC(2026, 10, 22, 7),
      policyVersion: 'p1',
      rules: [
        {
          limit: 'l',
          window: '2/day',
          used: 2,
          max: 2,
          remaining: 0,
          freesAt: Date.UTC(2026, 10, 22, 6),
          admits: false,
        },
        { limit: 'z', window: '0/day', used: 0, max: 0, remaining: 0, freesAt: null, admits: false },
      ],
    },
  })
  const { body } = await post(message)
  stub.verdict = () => ({})
  assert.deepEqual(body, {
    notificationId: body.notificationId,
    status: 'scheduled',
    sendAt: '2026-11-22T07:00:00.000Z',
    decision: {
      outcome: 'delay',
      reason: 'quiet_hours',
      limit: 'l',
      at: '2026-11-22T07:00:00.000Z',
      policyVersion: 'p1',
      rules: [
        {
          limit: 'l',
          window: '2/day',
          used: 2,
          max: 2,
          remaining: 0,
          freesAt: '2026-11-22T06:00:00.000Z',
          admits: false,
        },
        { limit: 'z', window: '0/day', used: 0, max: 0, remaining: 0, freesAt: null, admits: false },
      ],
    },
  })
})

for (const [behind, word] of [
  ['module', 'Module'],
  ['tenant', 'Tenant'],
] as const) {
  test(`a notification queued behind the limit of its ${behind} is answered 429 with its id and sendAt`, async () => {
    const now = Date.UTC(2026, 10, 21)
    stub.now = () => now
    stub.verdict = () => ({
      status: 'scheduled',
      queuedBehind: behind,
      decision: {
        outcome: 'delay',
        reason: `${behind}_limit`,
        at: now + 17_500,
        policyVersion: 'p1',
        rules: [],
      },
    })
    const { status, body, headers } = await post(message)
    stub.verdict = () => ({})
    stub.now = Date.now
    assert.equal(status, 429)
    assert.equal(headers.get('retry-after'), '18')
    assert.equal(body.code, 'RATE_LIMIT_EXCEEDED')
    assert.equal(body.detail, `${word} rate limit exceeded. Notification queued with 18s delay.`)
    assert.equal(body.sendAt, '2026-11-21T00:00:17.500Z')
    assert.ok(stub.notifications.has(body.notificationId))
  })
}

test('an operator may configure 202 in place of that 429', async () => {
  const lenient = await startStub({ overLimitStatus: 202 })
  lenient.verdict = () => ({ status: 'scheduled', queuedBehind: 'module' })
  const { status, body } = await lenient.ask('POST', '/notifications', message)
  assert.deepEqual([status, body.status], [202, 'scheduled'])
})

test('a recipient may be just an id, alone or in an object, when an address is stored', async () => {
  await stub.ask('PUT', '/recipients/stored', { email: 'stored@example.com' })
  for (const recipient of ['stored', { id: 'stored' }]) {
    assert.equal((await post({ ...message, recipient })).status, 202)
    assert.deepEqual(stub.drafts.at(-1)?.to, { id: 'stored' })
  }
  const sms = await post({ ...message, recipient: 'stored', channel: 'sms', content: { text: 'x' } })
  assert.deepEqual([sms.status, sms.body.errors.map(({ path }) => path)], [400, ['/recipient/phone']])
  const elsewhere = await post({ ...message, recipient: 'stored' }, { 'x-tenant-id': 'other' })
  assert.equal(elsewhere.status, 400)
})

test('websocket needs no address', async () => {
  assert.equal(
    (await post({ recipient: 'anybody', channel: 'websocket', content: { text: 'x' } })).status,
    202,
  )
})

test('a refusal of the gate is a problem with its code and Retry-After', async () => {
  for (const code of ['QUEUE_FULL', 'STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'] as const) {
    stub.before = () => {
      throw new SluiceError(code, 'Not now.', { retryAfterMs: 4_200 })
    }
    const { status, body, headers } = await post(message)
    assert.deepEqual([status, body.code, headers.get('retry-after')], [503, code, '5'])
  }
  stub.before = () => {}
})

test('an unexpected error is INTERNAL, is logged, and reveals nothing', async () => {
  stub.before = () => {
    throw new TypeError('secret inside')
  }
  const { status, body, text } = await post(message)
  stub.before = () => {}
  assert.deepEqual([status, body.code], [500, 'INTERNAL'])
  assert.equal(text.includes('secret inside'), false)
  assert.match(stub.logged.pop() ?? '', /secret inside/)
})

test('a dry run answers only the decision, and the channel of a fallback', async () => {
  const before = stub.notifications.size
  stub.verdict = () => ({
    channel: 'sms',
    decision: { outcome: 'fallback', limit: 'l', at: Date.UTC(2026, 0, 1), policyVersion: 'p1', rules: [] },
  })
  const { status, body } = await stub.ask('POST', '/decisions', message)
  stub.verdict = () => ({})
  assert.equal(status, 200)
  assert.deepEqual(body, {
    outcome: 'fallback',
    limit: 'l',
    at: '2026-01-01T00:00:00.000Z',
    policyVersion: 'p1',
    rules: [],
    channel: 'sms',
  })
  assert.equal(stub.notifications.size, before)
  assert.equal((await stub.ask('POST', '/decisions', {})).status, 400)
})

test('a notification is read with its timeline, and not by another tenant', async () => {
  const { body: accepted } = await post({ ...message, expiresAt: '2099-01-01T00:00:00Z' })
  const path = `/notifications/${accepted.notificationId}`
  const { status, body } = await stub.ask('GET', path)
  assert.equal(status, 200)
  const { createdAt, decision, timeline, sendAt, ...rest } = body
  assert.deepEqual(rest, {
    notificationId: accepted.notificationId,
    tenant: 'default',
    module: 'default',
    recipient: 'user-42',
    channel: 'email',
    category: 'product',
    template: null,
    priority: 'normal',
    status: 'queued',
    expiresAt: '2099-01-01T00:00:00.000Z',
  })
  assert.deepEqual(decision, accepted.decision)
  assert.deepEqual(timeline, [
    { at: createdAt, status: 'accepted' },
    { at: createdAt, status: 'queued' },
  ])
  assert.equal(sendAt, createdAt)
  assert.equal((await stub.ask('GET', path, undefined, { 'x-tenant-id': 'other' })).body.code, 'NOT_FOUND')
  assert.equal((await stub.ask('GET', '/notifications/none')).status, 404)
})

test('the state in memory is shown: sending', async () => {
  const { body } = await post(message)
  const notification = stub.notifications.get(body.notificationId)!
  stub.live.set(notification.id, {
    notification,
    status: 'sending',
    events: [{ at: 5, status: 'sending', attempt: 1 }],
  })
  const read = await stub.ask('GET', `/notifications/${notification.id}`)
  assert.equal(read.body.status, 'sending')
  assert.deepEqual(read.body.timeline.at(-1), {
    at: '1970-01-01T00:00:00.005Z',
    status: 'sending',
    attempt: 1,
  })
  const listed = await stub.ask('GET', '/notifications?status=sending')
  assert.deepEqual(
    listed.body.items.map((item) => item.notificationId),
    [notification.id],
  )
  const queued = await stub.ask('GET', '/notifications?status=queued')
  assert.equal(
    queued.body.items.some((item) => item.notificationId === notification.id),
    false,
  )
})

test('a list is filtered and paged', async () => {
  const filters =
    'recipient=user-42&category=product&channel=email&from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00%2B01:00&limit=2'
  const { status, body } = await stub.ask('GET', `/notifications?${filters}&status=failed,expired&cursor=abc`)
  assert.equal(status, 200)
  assert.deepEqual(body, { items: [], nextCursor: null })
  assert.deepEqual(stub.listed.at(-1), {
    tenant: 'default',
    limit: 2,
    recipient: 'user-42',
    statuses: ['failed', 'expired'],
    category: 'product',
    channel: 'email',
    from: Date.UTC(2026, 0, 1),
    to: Date.UTC(2026, 11, 31, 23),
    cursor: 'abc',
  })
  assert.equal((await stub.ask('GET', '/notifications?limit=1')).body.nextCursor, 'more')
})

for (const query of [
  'limit=0',
  'limit=501',
  'limit=x',
  'status=sent',
  'channel=fax',
  'from=yesterday',
  'colour=red',
]) {
  test(`the query ${query} is refused at its name`, async () => {
    const { status, body } = await stub.ask('GET', `/notifications?${query}`)
    assert.deepEqual([status, body.errors[0]?.path], [400, `/${query.split('=')[0]}`])
  })
}

test('cancelling answers 204, again too, and 409 for an ended notification', async () => {
  const { body } = await post(message)
  const path = `/notifications/${body.notificationId}`
  assert.equal((await stub.ask('DELETE', path)).status, 204)
  assert.equal((await stub.ask('DELETE', path, '', { 'content-type': 'application/json' })).status, 204)
  const notification = stub.notifications.get(body.notificationId)!
  stub.notifications.set(notification.id, { ...notification, status: 'delivered' })
  assert.equal((await stub.ask('DELETE', path)).body.code, 'NOT_CANCELLABLE')
  assert.equal((await stub.ask('DELETE', '/notifications/none')).status, 404)
})

for (const [header, value] of [
  ['X-Tenant-Id', 'a b\tc'],
  ['X-Tenant-Id', 'x'.repeat(257)],
  ['X-Module-Id', 'é'],
] as const) {
  test(`the header ${header}: ${value.slice(0, 10)} is refused`, async () => {
    const { status, body } = await post(message, { [header]: value })
    assert.deepEqual([status, body.errors[0]?.path], [400, `/${header}`])
  })
}

test('tenant and module are taken from the headers', async () => {
  const { body } = await post(message, { 'X-Tenant-Id': 'acme', 'X-Module-Id': 'shop' })
  const { tenant, module } = stub.notifications.get(body.notificationId)!
  assert.deepEqual([tenant, module], ['acme', 'shop'])
})
