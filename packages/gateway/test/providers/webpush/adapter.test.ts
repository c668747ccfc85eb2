import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account, Message, SendResult } from '../../../src/ports.ts'
import { readJwt } from '../../../src/providers/emulated-jwt.ts'
import { createWebPushProvider } from '../../../src/providers/webpush/adapter.ts'
import { decrypt } from '../../../src/providers/webpush/emulator.ts'
import type { Fate } from '../../../src/sandbox/behaviour.ts'
import { webPushExample } from '../../../src/sandbox/example-keys.ts'
import { openSandboxCalls, type SandboxCalls } from '../sandbox-calls.ts'
import { openRig, overApi } from '../sandbox-rig.ts'

const clock = { now: () => Date.now() }
/** The application server's key in RFC 8291's example. */
const secret = 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw'
const publicKey = 'BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8'
const account = (patch: Partial<Account> = {}): Account => ({
  id: 'a1',
  secret,
  options: { subject: 'mailto:ops@example.com', services: ['127.0.0.1'] },
  ...patch,
})
const tokenAt = (url: string, name?: string): string => JSON.stringify(webPushExample.subscription(url, name))

exerciseProvider(
  'webpush',
  (deadlineMs) =>
    openRig(createWebPushProvider({ clock, allowPrivate: true, deadlineMs }), () => account(), tokenAt),
  {
    channel: 'push',
    ...overApi,
  },
)

describe('webpush', () => {
  let calls: SandboxCalls
  let used = account()
  const provider = createWebPushProvider({ clock, allowPrivate: true })
  before(async () => {
    calls = await openSandboxCalls(provider, () => used)
  })
  after(() => calls.close())

  function push(patch: Partial<Message> = {}): Message {
    const to = { id: 'ada', pushToken: tokenAt(calls.server.url) }
    return someMessage('push', { to, content: { title: 'Grüße 👋', text: 'Somebody wrote' }, ...patch })
  }
  const read = (): unknown => JSON.parse(decrypt(Buffer.from(calls.last().body, 'base64')).toString())

  it('encrypts for the browser, and sends a VAPID token for the service’s origin', async () => {
    const result = await calls.send(push({ id: 'n-1', expiresAt: Date.now() + 3_600_500 }))
    assert.match((result as { providerMessageId: string }).providerMessageId, /^\/message\//)
    assert.deepEqual(read(), {
      notificationId: 'n-1',
      title: 'Grüße 👋',
      body: 'Somebody wrote',
      data: { post: 'p1' },
    })
    const { path, headers } = calls.last()
    assert.equal(path, '/push/rfc8291')
    assert.equal(headers['content-encoding'], 'aes128gcm')
    assert.equal(headers.ttl, '3600')
    assert.equal(headers.urgency, 'normal')
    assert.equal(headers.topic, 'n-1')
    const [, token, key] = /^vapid t=(.+), k=(.+)$/.exec(String(headers.authorization))!
    assert.equal(key, publicKey)
    const jwt = readJwt(token!)!
    assert.deepEqual(jwt.header, { typ: 'JWT', alg: 'ES256' })
    const { exp, ...claims } = jwt.claims
    assert.deepEqual(claims, { aud: calls.server.url, sub: 'mailto:ops@example.com' })
    const hours = (Number(exp) - Date.now() / 1_000) / 3_600
    assert.ok(hours > 11.9 && hours < 12.1)
  })

  it('sends the urgency, and a TTL of 28 days by default', async () => {
    for (const [priority, urgency] of [
      ['critical', 'high'],
      ['high', 'high'],
      ['low', 'low'],
    ] as const) {
      await calls.send(push({ priority }))
      assert.equal(calls.last().headers.urgency, urgency)
      assert.equal(calls.last().headers.ttl, '2419200')
    }
  })

  it('sends only topics that a service accepts', async () => {
    await calls.send(push({ id: 'x'.repeat(33) }))
    assert.equal(calls.last().headers.topic, undefined)
  })

  it('omits data that does not fit, and refuses texts that do not', async () => {
    assert.equal(
      (await calls.send(push({ id: 'n-2', data: { list: 'x'.repeat(4_000) } }))).outcome,
      'delivered',
    )
    assert.deepEqual(Object.keys(read() as object), ['notificationId', 'title', 'body'])
    const text = await calls.send(push({ content: { text: 'x'.repeat(4_000) } }))
    assert.equal(text.outcome === 'rejected' && !text.invalidAddress, true)
  })

  const wrong: readonly string[] = [
    'token-1',
    '"text"',
    'null',
    '{"endpoint":"https://push.example.com/a"}',
    JSON.stringify({
      ...webPushExample.subscription('https://push.example.com'),
      keys: { p256dh: 'BA', auth: 'BA' },
    }),
    JSON.stringify({
      endpoint: 'https://push.example.com/a',
      keys: { p256dh: Buffer.alloc(65, 4).toString('base64url'), auth: webPushExample.auth },
    }),
    JSON.stringify({ ...webPushExample.subscription('x'), endpoint: 'file:///etc/passwd' }),
  ]
  for (const pushToken of wrong)
    it(`makes no call for the subscription ${pushToken.slice(0, 60)}`, async () => {
      const before = calls.server.requests().length
      const result = await calls.send(push({ to: { id: 'u', pushToken } }))
      assert.equal(result.outcome === 'rejected' && result.invalidAddress, true)
      assert.equal(calls.server.requests().length, before)
    })

  it('blames refusals of an unknown service on the recipient alone', async () => {
    used = account({ options: { subject: 'mailto:ops@example.com', services: ['push.example.com'] } })
    const results: Partial<Record<Fate, SendResult>> = {}
    for (const fate of ['fail', 'rate_limit', 'suspend', 'reset', 'reject_address', 'deliver'] as const)
      results[fate] = await calls.send(push(), fate)
    used = account()
    const endpoint = calls.server.url
    const failed = { outcome: 'failed', endpoint }
    for (const [fate, expected] of [
      ['fail', { ...failed, retry: 'outage' }],
      ['rate_limit', { outcome: 'rate_limited', retryAfter: '30', endpoint }],
      ['suspend', failed],
      ['reset', { ...failed, retry: 'outage', maybeDelivered: true }],
    ] as const) {
      const { detail, ...result } = results[fate]!
      assert.deepEqual(result, expected, String(detail))
    }
    assert.equal(results.reject_address!.outcome, 'rejected')
    assert.equal(results.deliver!.outcome, 'delivered')
  })

  it('refuses accounts that can never work, when they are warmed', async () => {
    const bad: Partial<Account>[] = [
      { secret: 'canary' },
      { secret: Buffer.alloc(32, 255).toString('base64url') },
      { options: {} },
    ]
    for (const patch of bad)
      await assert.rejects(
        async () => provider.warm?.(account(patch)),
        (error: Error) => /webpush account a1/.test(error.message) && !/canary/.test(error.message),
      )
  })
})

describe('an endpoint of webpush', () => {
  const strict = createWebPushProvider({ clock })
  after(() => strict.close())
  const hosts = [
    '127.0.0.1:9',
    '[::1]:9',
    '[::ffff:127.0.0.1]:9',
    '2130706433:9',
    '169.254.169.254',
    '10.0.0.1',
  ]
  for (const host of [...hosts, 'localhost:9'])
    it(`may not lead to ${host}`, async () => {
      const message = someMessage('push', { to: { id: 'u', pushToken: tokenAt(`https://${host}`) } })
      const result = await strict.send(message, account(), AbortSignal.timeout(2_000))
      assert.equal(result.outcome === 'rejected' && result.invalidAddress, true, JSON.stringify(result))
      assert.match(String(result.detail), /public internet/)
    })

  it('must use TLS', async () => {
    const message = someMessage('push', { to: { id: 'u', pushToken: tokenAt('http://push.example.com') } })
    const result = await strict.send(message, account(), AbortSignal.timeout(2_000))
    assert.match(String(result.detail), /no https URL/)
  })
})
