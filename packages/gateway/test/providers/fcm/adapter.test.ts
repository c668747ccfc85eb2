import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account, Message, SendResult } from '../../../src/ports.ts'
import { readJwt } from '../../../src/providers/emulated-jwt.ts'
import { createFcmProvider } from '../../../src/providers/fcm/adapter.ts'
import { fcmExample } from '../../../src/sandbox/example-keys.ts'
import { createSandboxServer } from '../../../src/sandbox/server.ts'
import { createHttpSink, type HttpRule } from '../../sinks/http.ts'
import { openSandboxCalls, type SandboxCalls } from '../sandbox-calls.ts'
import { openRig, overApi } from '../sandbox-rig.ts'

const clock = { now: () => Date.now() }
const account = (url: string, patch: object = {}): Account => ({
  id: 'a1',
  url,
  secret: JSON.stringify({ ...fcmExample.serviceAccount(url), ...patch }),
  options: {},
})

exerciseProvider('fcm', (deadlineMs) => openRig(createFcmProvider({ clock, deadlineMs }), account), {
  channel: 'push',
  ...overApi,
})

const push = (patch: Partial<Message> = {}): Message =>
  someMessage('push', { content: { title: 'Grüße 👋', text: 'Somebody wrote' }, ...patch })

describe('fcm', () => {
  let calls: SandboxCalls
  const provider = createFcmProvider({ clock })
  before(async () => {
    calls = await openSandboxCalls(provider, account)
  })
  after(() => calls.close())

  it('requests a token with an assertion whose signature another implementation verifies', async () => {
    await calls.send(push())
    const { body, headers } = calls.server.requests().find(({ path }) => path === '/token')!
    assert.equal(headers['content-type'], 'application/x-www-form-urlencoded')
    const form = new URLSearchParams(body)
    assert.equal(form.get('grant_type'), 'urn:ietf:params:oauth:grant-type:jwt-bearer')
    const jwt = readJwt(form.get('assertion')!)!
    assert.ok(jwt.isSignedBy(fcmExample.publicKey))
    assert.deepEqual(jwt.header, { alg: 'RS256', typ: 'JWT', kid: 'rfc7517' })
    const { iat, exp, ...claims } = jwt.claims as { iat: number; exp: number }
    assert.equal(exp - iat, 3_600)
    assert.deepEqual(claims, {
      iss: 'sluice@sandbox.iam.gserviceaccount.com',
      aud: `${calls.server.url}/token`,
      scope: 'https://www.googleapis.com/auth/firebase.messaging',
    })
  })

  it('sends the texts, the data, and the priority in the words of each platform', async () => {
    const message = push({ id: 'n-1', expiresAt: Date.now() + 3_600_500, data: { post: { id: 7 } } })
    const result = await calls.send(message)
    assert.match(
      (result as { providerMessageId: string }).providerMessageId,
      /^projects\/sandbox\/messages\//,
    )
    const { path, headers, body } = calls.last()
    assert.equal(path, '/v1/projects/sandbox/messages:send')
    assert.match(String(headers.authorization), /^Bearer sandbox\./)
    assert.deepEqual(JSON.parse(body), {
      message: {
        token: 'token-1',
        notification: { title: 'Grüße 👋', body: 'Somebody wrote' },
        data: { notificationId: 'n-1', data: '{"post":{"id":7}}' },
        android: { priority: 'HIGH', ttl: '3600s', notification: { tag: 'n-1' } },
        apns: {
          headers: {
            'apns-priority': '10',
            'apns-expiration': String(Math.floor(message.expiresAt! / 1_000)),
            'apns-collapse-id': 'n-1',
          },
          payload: { aps: { sound: 'default' } },
        },
        webpush: { headers: { TTL: '3600', Urgency: 'high' } },
      },
    })
    await calls.send(push({ priority: 'low' }))
    assert.match(calls.last().body, /"NORMAL","ttl":"2419200s".*"Urgency":"low"/)
    assert.doesNotMatch(calls.last().body, /"sound"/)
  })

  it('requests a token once, however many calls wait for it', async (t) => {
    const { server, send } = await open(t)
    const results = await Promise.all(Array.from({ length: 50 }, () => send()))
    assert.ok(results.every(({ outcome }) => outcome === 'delivered'))
    assert.equal(server.requests().filter(({ path }) => path === '/token').length, 1)
  })

  it('omits data that does not fit, and refuses texts that do not', async () => {
    assert.equal((await calls.send(push({ data: { list: 'x'.repeat(5_000) } }))).outcome, 'delivered')
    assert.deepEqual(Object.keys(JSON.parse(calls.last().body).message.data), ['notificationId'])
    const text = await calls.send(push({ content: { text: 'x'.repeat(4_096) } }))
    assert.equal(text.outcome === 'rejected' && !text.invalidAddress, true)
  })

  it('makes no call for an invalid device token', async () => {
    const before = calls.server.requests().length
    const result = await calls.send(push({ to: { id: 'u', pushToken: '{"endpoint":"x"}' } }))
    assert.equal(result.outcome === 'rejected' && result.invalidAddress, true)
    assert.equal(calls.server.requests().length, before)
  })

  it('refuses accounts that can never work, when they are warmed, and shows nothing of their secret', async () => {
    const wrong = [
      'canary',
      '{"canary":1}',
      JSON.stringify({ ...fcmExample.serviceAccount('http://x'), private_key: 'canary' }),
      JSON.stringify({ ...fcmExample.serviceAccount('http://x'), project_id: 'a/canary' }),
      JSON.stringify({ ...fcmExample.serviceAccount('http://x'), token_uri: 'canary' }),
    ]
    for (const secret of wrong)
      await assert.rejects(
        async () => provider.warm?.({ id: 'a1', secret, options: {} }),
        (error: Error) => /fcm account a1/.test(error.message) && !/canary/.test(error.message),
      )
  })

  it('blames a key that gets no token on the account', async (t) => {
    const { generateKeyPairSync } = await import('node:crypto')
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
    const { send } = await open(t, {
      private_key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
    })
    const result = await send()
    assert.equal(result.outcome, 'failed')
    assert.match(String(result.detail), /no access token: 400 .*Invalid JWT Signature/)
    assert.doesNotMatch(String(result.detail), /eyJ/)
  })
})

async function open(t: TestContext, patch: object = {}, now = () => Date.now()) {
  const server = await createSandboxServer({ clock: { now } })
  const provider = createFcmProvider({ clock: { now }, deadlineMs: 2_000 })
  t.after(async () => {
    await provider.close()
    await server.close()
  })
  const one = account(server.url, patch)
  return {
    server,
    send: (): Promise<SendResult> => provider.send(push(), one, AbortSignal.timeout(5_000)),
    asked: () => server.requests().filter(({ path }) => path === '/token').length,
  }
}

describe('an access token', () => {
  it('is renewed before its expiry, without holding up a call', async (t) => {
    let now = Date.now()
    const { send, asked } = await open(t, {}, () => now)
    await send()
    now += 50 * 60_000
    await send()
    assert.equal(asked(), 1)
    now += 6 * 60_000
    assert.equal((await send()).outcome, 'delivered')
    for (let tries = 0; asked() < 2 && tries < 2_000; tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 5))
    assert.equal(asked(), 2)
    now += 10 * 60_000
    assert.equal((await send()).outcome, 'delivered')
    assert.equal(asked(), 2)
  })

  it('that has expired is replaced before the call', async (t) => {
    let now = Date.now()
    const { send, asked, server } = await open(t, {}, () => now)
    await send()
    now += 2 * 3_600_000
    assert.equal((await send()).outcome, 'delivered')
    assert.equal(asked(), 2)
    assert.equal(server.counters().calls, 2)
  })
})

describe('what FCM answers', () => {
  const error = (status: string, details: object[] = [], message = 'm'): string =>
    JSON.stringify({ error: { status, message, details } })
  const fcm = (errorCode: string): object => ({ errorCode })
  const cases: readonly (readonly [string, HttpRule, Partial<SendResult>])[] = [
    ['a device that is gone', { status: 404, body: error('NOT_FOUND', [fcm('UNREGISTERED')]) }, dead()],
    [
      'a device of another project',
      { status: 403, body: error('PERMISSION_DENIED', [fcm('SENDER_ID_MISMATCH')]) },
      { outcome: 'rejected', invalidAddress: false },
    ],
    ['a device that is not found', { status: 404, body: error('NOT_FOUND') }, dead()],
    ['a page instead of an answer', { status: 404, body: '<html>not here</html>' }, { outcome: 'failed' }],
    [
      'a token that is none',
      { status: 400, body: error('INVALID_ARGUMENT', [], 'The registration token is not valid') },
      dead(),
    ],
    [
      'a fault in the field of the token',
      { status: 400, body: error('INVALID_ARGUMENT', [{ fieldViolations: [{ field: 'message.token' }] }]) },
      dead(),
    ],
    [
      'a fault elsewhere',
      { status: 400, body: error('INVALID_ARGUMENT', [fcm('INVALID_ARGUMENT')]) },
      { outcome: 'rejected', invalidAddress: false },
    ],
    [
      'the project’s quota',
      {
        status: 429,
        headers: { 'Retry-After': '60' },
        body: error('RESOURCE_EXHAUSTED', [fcm('QUOTA_EXCEEDED')]),
      },
      { outcome: 'rate_limited', retryAfter: '60' },
    ],
    [
      'a device’s quota',
      {
        status: 429,
        body: error('RESOURCE_EXHAUSTED', [
          fcm('QUOTA_EXCEEDED'),
          { violations: [{ subject: 'x', description: 'Device message rate exceeded' }] },
        ]),
      },
      { outcome: 'failed', recipientFault: true },
    ],
    [
      'a pause that Google asks for',
      { status: 503, headers: { 'Retry-After': '9' }, body: error('UNAVAILABLE', [fcm('UNAVAILABLE')]) },
      { outcome: 'rate_limited', retryAfter: '9' },
    ],
    ['a service that is away', { status: 503, body: error('UNAVAILABLE') }, { outcome: 'failed' }],
    [
      'a service that breaks',
      { status: 500, body: error('INTERNAL', [fcm('INTERNAL')]) },
      { outcome: 'failed' },
    ],
    [
      'credentials for Apple that are missing',
      { status: 401, body: error('UNAUTHENTICATED', [fcm('THIRD_PARTY_AUTH_ERROR')]) },
      { outcome: 'failed' },
    ],
    ['a page that is no JSON', { status: 502, body: '<html>' }, { outcome: 'failed' }],
  ]
  function dead(): Partial<SendResult> {
    return { outcome: 'rejected', invalidAddress: true }
  }
  const token: HttpRule = {
    match: 'POST /token',
    status: 200,
    body: JSON.stringify({ access_token: 'ya29.canary', expires_in: 3_600 }),
  }
  for (const [what, rule, expected] of cases)
    it(`${what}: ${JSON.stringify(expected)}`, async (t) => {
      const sink = await createHttpSink({ rules: [token, rule] })
      const provider = createFcmProvider({ clock })
      t.after(async () => {
        await provider.close()
        await sink.close()
      })
      const result = await provider.send(push(), account(sink.url), AbortSignal.timeout(5_000))
      assert.deepEqual({ ...result, ...expected }, result)
    })

  it('a revoked token is replaced once, and the call retried; a young one is not', async (t) => {
    let now = Date.now()
    const sink = await createHttpSink({ rules: [token] })
    const provider = createFcmProvider({ clock: { now: () => now } })
    t.after(async () => {
      await provider.close()
      await sink.close()
    })
    const one = account(sink.url)
    const send = (): Promise<SendResult> => provider.send(push(), one, AbortSignal.timeout(5_000))
    await send()
    now += 120_000
    const unauthenticated = { status: 401, body: error('UNAUTHENTICATED', [], 'Bearer ya29.canary') }
    sink.rules = [token, unauthenticated]
    const before = sink.requests.length
    const result = await send()
    assert.equal(result.outcome, 'failed')
    // The call, the token, the call.
    assert.equal(sink.requests.length - before, 3)
    assert.doesNotMatch(JSON.stringify(result), /canary/)
    await send()
    assert.equal(sink.requests.length - before, 4)
  })
})
