import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import https from 'node:https'
import { type TestContext, test } from 'node:test'
import { someMessage } from '../../../src/conformance/provider.ts'
import { SluiceError } from '../../../src/errors.ts'
import type { Account, Message, SendResult } from '../../../src/ports.ts'
import { createWebhookProvider, type WebhookOptions } from '../../../src/providers/webhook/adapter.ts'
import { certificate, certificateKey } from '../../sinks/certificate.ts'
import { createHttpSink, type HttpRule } from '../../sinks/http.ts'

const secret = `whsec_${Buffer.from('a key of twenty-four by!').toString('base64')}`

async function connected(t: TestContext, options: WebhookOptions = {}) {
  const sink = await createHttpSink()
  const provider = createWebhookProvider({ deadlineMs: 3_000, ...options })
  t.after(async () => {
    await provider.close()
    await sink.close()
  })
  const send = (
    message: Message = someMessage('webhook'),
    account: Partial<Account> = { url: `${sink.url}/in` },
  ) => provider.send(message, { id: 'hook-1', options: {}, ...account }, new AbortController().signal)
  return { sink, provider, send }
}

test('the body has exactly the contract’s fields', async (t) => {
  const { sink, send } = await connected(t)
  const message = someMessage('sms', {
    id: '01ABC',
    attempt: 3,
    content: { text: 'Grüße' },
    data: { a: [1, null] },
  })
  assert.deepEqual(await send(message), { outcome: 'delivered', detail: '200' })
  const [request] = sink.requests
  assert.equal(request!.method, 'POST')
  assert.equal(request!.path, '/in')
  assert.equal(request!.headers['content-type'], 'application/json')
  assert.deepEqual(JSON.parse(request!.body), {
    notificationId: '01ABC',
    tenant: 'acme',
    recipient: 'user-1',
    channel: 'sms',
    category: 'product',
    content: { text: 'Grüße' },
    data: { a: [1, null] },
    attempt: 3,
  })
})

test('a notification without data has an empty data object', async (t) => {
  const { sink, send } = await connected(t)
  const { data: _, ...message } = someMessage('webhook')
  await send(message)
  assert.deepEqual(JSON.parse(sink.requests[0]!.body).data, {})
})

test('an account that wants addresses gets them in the body', async (t) => {
  const { sink, send } = await connected(t)
  await send(someMessage('sms'), { url: sink.url, options: { address: true } })
  assert.equal(JSON.parse(sink.requests[0]!.body).to.phone, '+390612345678')
})

test('the signature follows Standard Webhooks', async (t) => {
  const { sink, send } = await connected(t, { clock: { now: () => 1_795_262_400_999 } })
  await send(someMessage('webhook', { id: '01ABC' }), { url: sink.url, secret })
  const { headers, body } = sink.requests[0]!
  assert.equal(headers['webhook-id'], '01ABC')
  assert.equal(headers['webhook-timestamp'], '1795262400')
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const expected = createHmac('sha256', key).update(`01ABC.1795262400.${body}`).digest('base64')
  assert.equal(headers['webhook-signature'], `v1,${expected}`)
})

test('the signature agrees with the specification’s own example', async () => {
  const { parseSecret, sign } = await import('../../../src/providers/webhook/signature.ts')
  const key = parseSecret('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
  assert.equal(
    sign(key, 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330, '{"test": 2432232314}'),
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  )
})

test('without a secret a request has an id and a time, and no signature', async (t) => {
  const { sink, send } = await connected(t)
  await send()
  assert.equal(sink.requests[0]!.headers['webhook-signature'], undefined)
  assert.ok(sink.requests[0]!.headers['webhook-id'])
})

const statuses: readonly (readonly [number, string])[] = [
  ...[200, 201, 202, 204, 299].map((status) => [status, 'delivered'] as const),
  ...[300, 301, 302, 303, 304, 307, 308].map((status) => [status, 'rejected'] as const),
  ...[400, 401, 403, 404, 405, 406, 409, 413, 418, 422, 426, 451].map(
    (status) => [status, 'rejected'] as const,
  ),
  [410, 'invalid'],
  [429, 'rate_limited'],
  ...[408, 423, 425].map((status) => [status, 'failed'] as const),
  ...[500, 501, 502, 503, 504, 599].map((status) => [status, 'failed'] as const),
]
for (const [status, expected] of statuses) {
  test(`${status} is ${expected}`, async (t) => {
    const { sink, send } = await connected(t)
    sink.rules = [{ status, headers: { Location: `${sink.url}/elsewhere` } }]
    const result = await send()
    const said = result.outcome === 'rejected' && result.invalidAddress ? 'invalid' : result.outcome
    assert.equal(said, expected, JSON.stringify(result))
    assert.equal(sink.requests.length, 1, 'a redirect was followed')
  })
}

for (const retryAfter of ['7', '0', 'Wed, 21 Oct 2026 07:28:00 GMT', '-5', 'soon', '']) {
  test(`Retry-After “${retryAfter}” is passed on as it is`, async (t) => {
    const { sink, send } = await connected(t)
    sink.rules = [{ status: 429, headers: { 'Retry-After': retryAfter } }]
    const result = await send()
    assert.ok(result.outcome === 'rate_limited')
    assert.equal(result.retryAfter, retryAfter)
  })
}

test('a 429 without Retry-After says so', async (t) => {
  const { sink, send } = await connected(t)
  sink.rules = [{ status: 429, body: 'slow down' }]
  assert.deepEqual(await send(), { outcome: 'rate_limited', detail: '429 slow down' })
})

const misbehaviours: readonly (readonly [string, HttpRule, SendResult['outcome']])[] = [
  ['a yes whose body never ends', { do: 'flood' }, 'delivered'],
  ['a yes whose body stops', { do: 'stall' }, 'delivered'],
  ['a no whose body never ends', { do: 'flood', status: 500 }, 'failed'],
  ['a no whose body stops', { do: 'stall', status: 422 }, 'rejected'],
  ['an endless detail', { status: 500, body: 'x'.repeat(200_000) }, 'failed'],
]
for (const [what, rule, outcome] of misbehaviours) {
  test(`${what} is judged by its status, and its body is read up to the limit`, async (t) => {
    const { sink, send } = await connected(t, { deadlineMs: 400 })
    sink.rules = [rule]
    const result = await send()
    assert.equal(result.outcome, outcome)
    assert.ok((result as { detail: string }).detail.length < 300)
    sink.rules = []
    assert.equal((await send()).outcome, 'delivered')
  })
}

test('an endless body is cut off long before the deadline', async (t) => {
  const { sink, send } = await connected(t, { deadlineMs: 60_000 })
  sink.rules = [{ do: 'flood', status: 500 }]
  const began = performance.now()
  assert.equal((await send()).outcome, 'failed')
  assert.ok(performance.now() - began < 30_000)
})

test('https requires a certificate of a trusted authority', async (t) => {
  const server = https.createServer({ cert: certificate, key: certificateKey }, (_, response) =>
    response.end(),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const { send } = await connected(t)
  const result = await send(undefined, {
    url: `https://localhost:${(server.address() as { port: number }).port}/`,
  })
  assert.deepEqual(result, { outcome: 'failed', detail: 'DEPTH_ZERO_SELF_SIGNED_CERT', retry: 'outage' })
})

test('connections are kept open and reused', async (t) => {
  const { sink, send } = await connected(t)
  for (let index = 0; index < 20; index += 1) await send()
  assert.equal(sink.connections.opened, 1)
})

test('an address from a request that leads into a private network is refused, whenever it is resolved', async (t) => {
  const { sink, send } = await connected(t)
  const port = String(sink.port)
  for (const host of [
    '127.0.0.1',
    'localhost',
    '2130706433',
    '0x7f.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '0',
    '169.254.169.254',
  ]) {
    const to = { id: 'user-1', webhookUrl: `http://${host}:${port}/in` }
    const result = await send(someMessage('webhook', { to }), {})
    assert.equal(
      result.outcome === 'rejected' && result.invalidAddress,
      true,
      `${host}: ${JSON.stringify(result)}`,
    )
  }
  assert.deepEqual([sink.requests.length, sink.connections.opened], [0, 0])
})

test('a connection to the operator’s own address is not reused for one from a request', async (t) => {
  const { sink, send } = await connected(t)
  const url = `http://localhost:${sink.port}/in`
  assert.equal((await send(undefined, { url })).outcome, 'delivered')
  assert.equal(
    (await send(someMessage('webhook', { to: { id: 'u', webhookUrl: url } }), {})).outcome,
    'rejected',
  )
  assert.equal(sink.requests.length, 1)
})

test('allowPrivate lets addresses lead into private networks', async (t) => {
  const { sink, send } = await connected(t, { allowPrivate: true })
  const to = { id: 'user-1', webhookUrl: `${sink.url}/mine` }
  assert.equal((await send(someMessage('webhook', { to }), {})).outcome, 'delivered')
  assert.equal(sink.requests[0]!.path, '/mine')
})

test('the account’s address takes precedence over the recipient’s', async (t) => {
  const { sink, send } = await connected(t)
  const to = { id: 'user-1', webhookUrl: 'http://recipient.example/' }
  assert.equal((await send(someMessage('webhook', { to }))).outcome, 'delivered')
  assert.equal(sink.requests.length, 1)
})

for (const webhookUrl of [
  undefined,
  '',
  'nonsense',
  'ftp://example.com/',
  'file:///etc/passwd',
  'javascript:1',
  '//example.com',
]) {
  test(`${JSON.stringify(webhookUrl)} is no address to call`, async (t) => {
    const { send } = await connected(t)
    const to = { id: 'user-1', ...(webhookUrl === undefined ? {} : { webhookUrl }) }
    const result = await send(someMessage('webhook', { to }), {})
    assert.equal(result.outcome === 'rejected' && result.invalidAddress, true)
  })
}

test('a wrong secret or url is refused when the account is warmed, and not shown', async () => {
  const provider = createWebhookProvider()
  for (const account of [
    { secret: 'whsec_canary!!' },
    { secret: 'whsec_' },
    { url: 'ftp://x.example' },
    { url: 'canary' },
  ]) {
    await assert.rejects(provider.warm!({ id: 'hook-1', options: {}, ...account }), (error) => {
      return (
        error instanceof SluiceError && error.code === 'INVALID_CONFIG' && !error.message.includes('canary')
      )
    })
  }
})
