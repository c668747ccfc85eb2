import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account, Message } from '../../../src/ports.ts'
import { createApnsProvider } from '../../../src/providers/apns/adapter.ts'
import { readJwt } from '../../../src/providers/emulated-jwt.ts'
import { uuidOf } from '../../../src/providers/transport/push-payload.ts'
import { apnsExample } from '../../../src/sandbox/example-keys.ts'
import { createSandboxServer } from '../../../src/sandbox/server.ts'
import { openSandboxCalls, type SandboxCalls } from '../sandbox-calls.ts'
import { openRig, overApi } from '../sandbox-rig.ts'

const clock = { now: () => Date.now() }
const device = '00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f1'
const { keyId, teamId, privateKey } = apnsExample
const account = (url: string, patch: Partial<Account> = {}): Account => ({
  id: 'a1',
  url,
  secret: privateKey,
  options: { keyId, teamId, topic: 'com.example.shop' },
  ...patch,
})

exerciseProvider(
  'apns',
  (deadlineMs) => openRig(createApnsProvider({ clock, deadlineMs }), account, () => device),
  {
    channel: 'push',
    ...overApi,
  },
)

const push = (patch: Partial<Message> = {}): Message =>
  someMessage('push', {
    to: { id: 'ada', pushToken: device },
    content: { title: 'Grüße 👋', text: 'Somebody wrote' },
    ...patch,
  })

describe('apns', () => {
  let calls: SandboxCalls
  const provider = createApnsProvider({ clock })
  before(async () => {
    calls = await openSandboxCalls(provider, account)
  })
  after(() => calls.close())

  it('sends an alert over HTTP/2, under a token whose signature another implementation verifies', async () => {
    const result = await calls.send(push({ id: '01JXYZ' }))
    assert.match((result as { providerMessageId: string }).providerMessageId, /^sandbox-/)
    const { path, headers, body } = calls.last()
    assert.equal(path, `/3/device/${device}`)
    assert.deepEqual(JSON.parse(body), {
      aps: { alert: { title: 'Grüße 👋', body: 'Somebody wrote' }, sound: 'default' },
      notificationId: '01JXYZ',
      data: { post: 'p1' },
    })
    assert.equal(headers['apns-topic'], 'com.example.shop')
    assert.equal(headers['apns-push-type'], 'alert')
    assert.equal(headers['apns-priority'], '10')
    assert.equal(headers['apns-collapse-id'], '01JXYZ')
    // python3 -c "import uuid; print(uuid.uuid5(uuid.NAMESPACE_URL, 'urn:sluice:01JXYZ'))"
    assert.equal(headers['apns-id'], 'f0274246-1593-50da-8b5e-2ba1daded8a3')
    const monthS = Number(headers['apns-expiration']) - Date.now() / 1_000
    assert.ok(Math.abs(monthS - 28 * 86_400) < 60)
    const jwt = readJwt(String(headers.authorization).slice('bearer '.length))!
    assert.deepEqual(jwt.header, { alg: 'ES256', kid: keyId })
    assert.deepEqual(Object.keys(jwt.claims).sort(), ['iat', 'iss'])
    assert.ok(jwt.isSignedBy(apnsExample.publicKey))
  })

  it('uses one token for many calls', async () => {
    await calls.send(push())
    const first = calls.last().headers.authorization
    await calls.send(push())
    assert.equal(calls.last().headers.authorization, first)
  })

  it('sends priority and expiry', async () => {
    await calls.send(push({ priority: 'low', expiresAt: Date.now() + 60_000 }))
    const { headers, body } = calls.last()
    assert.equal(headers['apns-priority'], '5')
    assert.ok(Math.abs(Number(headers['apns-expiration']) - Date.now() / 1_000 - 60) < 5)
    assert.equal(JSON.parse(body).aps.sound, undefined)
  })

  it('omits data that does not fit, and refuses texts that do not', async () => {
    const big = { list: 'x'.repeat(5_000) }
    assert.equal((await calls.send(push({ data: big }))).outcome, 'delivered')
    assert.equal(JSON.parse(calls.last().body).data, undefined)
    const text = await calls.send(push({ content: { text: 'x'.repeat(4_096) } }))
    assert.equal(text.outcome === 'rejected' && !text.invalidAddress, true)
  })

  for (const pushToken of ['', 'token-1', `${device}/../x`, 'ab']) {
    it(`makes no call for the device ${JSON.stringify(pushToken)}`, async () => {
      const before = calls.server.counters().calls
      const result = await calls.send(push({ to: { id: 'u', pushToken } }))
      assert.equal(result.outcome === 'rejected' && result.invalidAddress, true)
      assert.equal(calls.server.counters().calls, before)
    })
  }

  it('recognises an unregistered device, and does not blame the address for a token of another server or app', async () => {
    for (const end of ['0', '1']) {
      const to = { id: 'u', pushToken: device.slice(0, -1) + end }
      const result = await calls.send(push({ to }), 'reject_address')
      assert.equal(result.outcome === 'rejected' && result.invalidAddress, end === '1')
      assert.match(String(result.detail), end === '0' ? /BadDeviceToken/ : /Unregistered/)
    }
  })

  it('blames a key without permission on the account, and shows no secret', async () => {
    const result = await calls.send(push(), 'suspend')
    assert.equal(result.outcome, 'failed')
    assert.doesNotMatch(JSON.stringify(result), /PRIVATE|bearer|eyJ/)
  })

  it('refuses accounts that can never work, when they are warmed', async () => {
    const wrong: Partial<Account>[] = [
      { secret: 'canary' },
      { secret: privateKey.replace('MIG', 'MIH') },
      { options: { keyId, teamId } },
      { options: { topic: 't', keyId } },
    ]
    for (const patch of wrong)
      await assert.rejects(
        async () => provider.warm?.(account('http://127.0.0.1:1', patch)),
        (error: Error) => /apns account a1/.test(error.message) && !/canary/.test(error.message),
      )
  })
})

describe('a refused token of apns', () => {
  it('is replaced when it is older than twenty minutes, and the call is retried with its successor', async (t) => {
    let here = Date.now()
    let there = here
    const server = await createSandboxServer({ clock: { now: () => there } })
    const provider = createApnsProvider({ clock: { now: () => here } })
    t.after(async () => {
      await provider.close()
      await server.close()
    })
    const send = () => provider.send(push(), account(server.url), AbortSignal.timeout(5_000))
    assert.equal((await send()).outcome, 'delivered')
    here += 40 * 60_000
    there += 61 * 60_000
    assert.equal((await send()).outcome, 'delivered')
    const [first, refused, renewed] = server.requests().map(({ headers }) => headers.authorization)
    assert.equal(refused, first)
    assert.notEqual(renewed, first)
  })

  it('is the account’s failure while it is young: Apple would refuse a new one as too early', async (t) => {
    const server = await createSandboxServer()
    const provider = createApnsProvider({ clock: { now: () => Date.now() - 61 * 60_000 } })
    t.after(async () => {
      await provider.close()
      await server.close()
    })
    const result = await provider.send(push(), account(server.url), AbortSignal.timeout(5_000))
    assert.equal(result.outcome, 'failed')
    assert.match(String(result.detail), /ExpiredProviderToken/)
    assert.equal(server.requests().length, 1)
  })

  it('is avoided by renewing in time', async (t) => {
    let now = Date.now()
    const clock = { now: () => now }
    const server = await createSandboxServer({ clock })
    const provider = createApnsProvider({ clock })
    t.after(async () => {
      await provider.close()
      await server.close()
    })
    const used = new Set<unknown>()
    for (let minute = 0; minute <= 180; minute += 10) {
      const result = await provider.send(push(), account(server.url), AbortSignal.timeout(5_000))
      assert.equal(result.outcome, 'delivered')
      used.add(server.requests().at(-1)!.headers.authorization)
      now += 10 * 60_000
    }
    assert.equal(used.size, 4)
    assert.equal(server.requests().length, 19, 'none was refused')
  })

  it('follows from a wrong signature: another key under the same id does not pass', async (t) => {
    const { generateKeyPairSync } = await import('node:crypto')
    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
    const server = await createSandboxServer()
    const provider = createApnsProvider({ clock })
    t.after(async () => {
      await provider.close()
      await server.close()
    })
    const secret = String(other.export({ type: 'pkcs8', format: 'pem' }))
    const result = await provider.send(push(), account(server.url, { secret }), AbortSignal.timeout(5_000))
    assert.match(String(result.detail), /InvalidProviderToken/)
  })
})

describe('what APNs answers', () => {
  const accountsOwn = { outcome: 'failed' }
  const outage = { outcome: 'failed', retry: 'outage' }
  const dead = { outcome: 'rejected', invalidAddress: true }
  const own = { outcome: 'rejected', invalidAddress: false }
  const since = 1_763_000_000_000
  const cases: readonly (readonly [number, string, object])[] = [
    [400, 'BadDeviceToken', own],
    [400, 'DeviceTokenNotForTopic', own],
    [410, 'Unregistered', { ...dead, invalidSince: since }],
    [410, 'ExpiredToken', { ...dead, invalidSince: since }],
    [400, 'BadExpirationDate', own],
    [400, 'PayloadEmpty', own],
    [413, 'PayloadTooLarge', own],
    [400, 'TopicDisallowed', accountsOwn],
    [400, 'BadTopic', accountsOwn],
    [403, 'Forbidden', accountsOwn],
    [403, 'InvalidProviderToken', accountsOwn],
    [404, 'BadPath', accountsOwn],
    [429, 'TooManyRequests', { outcome: 'failed', recipientFault: true }],
    [429, 'TooManyProviderTokenUpdates', { outcome: 'rate_limited' }],
    [500, 'InternalServerError', outage],
    [503, 'ServiceUnavailable', outage],
    [503, 'Shutdown', outage],
  ]
  const server = createServer()
  let answer: readonly [number, string] = [200, '']
  server.on('stream', (stream, { authorization }) => {
    stream.respond({ ':status': answer[0] })
    const timestamp = answer[0] === 410 ? { timestamp: since } : {}
    stream.end(JSON.stringify({ reason: answer[1], you: authorization, ...timestamp }))
  })
  const provider = createApnsProvider({ clock })
  before(async () => {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  })
  after(async () => {
    await provider.close()
    server.close()
  })
  for (const [status, reason, expected] of cases)
    it(`${status} ${reason}: ${JSON.stringify(expected)}, and the detail repeats nothing of the token`, async () => {
      answer = [status, reason]
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const result = await provider.send(push(), account(url), AbortSignal.timeout(5_000))
      const { detail, ...rest } = result
      assert.deepEqual(rest, expected)
      assert.match(String(detail), new RegExp(`${status} .*${reason}.*bearer \\(secret\\)`))
    })
})

it('the id of a notification has one UUID, of version 5', () => {
  assert.match(uuidOf('a'), /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.notEqual(uuidOf('a'), uuidOf('b'))
})
