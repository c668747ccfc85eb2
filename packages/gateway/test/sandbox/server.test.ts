/** The sandbox server over real sockets: HTTP/1.1, HTTP/2 and SMTP, its rates, its mishaps, its own routes. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { after, before, describe, it } from 'node:test'
import { someMessage } from '../../src/conformance/provider.ts'
import type { SendResult } from '../../src/ports.ts'
import { createSmtpProvider } from '../../src/providers/smtp/adapter.ts'
import { createWebhookProvider } from '../../src/providers/webhook/adapter.ts'
import type { SandboxBehaviour } from '../../src/sandbox/behaviour.ts'
import { createSandboxServer, type SandboxServer } from '../../src/sandbox/server.ts'

let sandbox: SandboxServer
before(async () => {
  sandbox = await createSandboxServer({ seed: 7 })
})
after(() => sandbox.close())

const soon = (ms: number): AbortSignal => AbortSignal.timeout(ms)

async function control(route: string, init?: RequestInit): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${sandbox.url}/_sandbox${route}`, init)
  const text = await response.text()
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
}

const put = (route: string, behaviour: SandboxBehaviour) =>
  control(route, { method: 'PUT', body: JSON.stringify(behaviour) })

describe('a webhook', () => {
  const provider = createWebhookProvider({ deadlineMs: 500 })
  after(() => provider.close())
  const send = (account: string): Promise<SendResult> =>
    provider.send(
      someMessage('webhook'),
      { id: account, url: `${sandbox.url}/hook/${account}`, options: {} },
      soon(2_000),
    )

  it('is recorded with its account and notification', async () => {
    assert.equal((await send('plain')).outcome, 'delivered')
    const [call] = sandbox.received({ account: 'plain' })
    assert.equal(call!.message.to.id, 'user-1')
    assert.equal(sandbox.requests().at(-1)!.headers['webhook-id'], call!.message.id)
  })

  it('gets 429 with Retry-After above a hard rate, and early retries are counted', async () => {
    await put('/behaviour?account=tight', { rates: [{ max: 2, windowMs: 60_000 }] })
    const results = [await send('tight'), await send('tight'), await send('tight'), await send('tight')]
    assert.deepEqual(
      results.map(({ outcome }) => outcome),
      ['delivered', 'delivered', 'rate_limited', 'rate_limited'],
    )
    assert.equal((results[2] as { retryAfter?: string }).retryAfter, '60')
    assert.equal(sandbox.counters('tight').whileBlocked, 1)
  })

  const told: readonly [keyof NonNullable<SandboxBehaviour['odds']>, SendResult['outcome']][] = [
    ['fail', 'failed'],
    ['reject', 'rejected'],
    ['reject_address', 'rejected'],
    ['suspend', 'failed'],
    ['reset', 'failed'],
    ['reset_after_accept', 'failed'],
    ['hang', 'failed'],
  ]
  for (const [mishap, outcome] of told) {
    it(`with the mishap ${mishap} is ${outcome}`, async () => {
      await put(`/behaviour?account=${mishap}`, { odds: { [mishap]: 1 } })
      assert.equal((await send(mishap)).outcome, outcome)
    })
  }

  it('waits for the latency of the account', async () => {
    await put('/behaviour?account=slow', { latency: 60 })
    const before = performance.now()
    await send('slow')
    assert.ok(performance.now() - before >= 59)
  })
})

it('the sandbox server speaks HTTP/2 on the same port', async () => {
  const session = connectHttp2(sandbox.url)
  const stream = session.request({ ':method': 'POST', ':path': '/hook/two', 'webhook-id': 'n-2' })
  stream.end('{"recipient":"user-9"}')
  const [headers] = (await once(stream, 'response')) as [Record<string, unknown>]
  assert.equal(headers[':status'], 200)
  session.destroy()
  assert.equal(sandbox.received({ account: 'two' })[0]!.message.to.id, 'user-9')
})

it('the sandbox server takes mail for the account that logged in, and refuses it above the rate', async () => {
  const provider = createSmtpProvider({ deadlineMs: 2_000 })
  const url = sandbox.smtpUrl.replace('//', '//mailer:secret@')
  await put('/behaviour?account=mailer', { rates: [{ max: 1, windowMs: 30_000 }] })
  const account = { id: 'a', url, options: { tls: 'off' } }
  const first = await provider.send(someMessage('email', { id: 'mail-1' }), account, soon(2_000))
  const second = await provider.send(someMessage('email', { id: 'mail-2' }), account, soon(2_000))
  await provider.close()
  assert.equal(first.outcome, 'delivered')
  assert.deepEqual([second.outcome, (second as { retryAfter?: string }).retryAfter], ['rate_limited', '30'])
  assert.equal(sandbox.received({ account: 'mailer' })[0]!.message.id, 'mail-1')
})

describe('the control routes of the sandbox', () => {
  it('report the fullest rolling window, counted literally', async () => {
    for (let i = 0; i < 3; i += 1)
      await fetch(`${sandbox.url}/hook/counted`, {
        method: 'POST',
        headers: { 'webhook-id': `c${i}` },
        body: '{}',
      })
    const { body } = await control('/windows?window=1min&account=counted')
    const [window] = (body as { items: { most: number; calls: number }[] }).items
    assert.deepEqual([window!.most, window!.calls], [3, 3])
  })

  it('refuse an invalid behaviour, naming its field', async () => {
    const { status, body } = await put('/behaviour', { odds: { fail: 2 } })
    assert.equal(status, 400)
    assert.match((body as { error: string }).error, /behaviour\.odds/)
  })

  it('hand out credentials that the emulators verify', async () => {
    const { status, body } = await control('/credentials')
    assert.equal(status, 200)
    assert.deepEqual(Object.keys(body as object), ['apns', 'fcm', 'webpush'])
    const { fcm, webpush } = body as Record<string, Record<string, Record<string, string>>>
    assert.equal(fcm!.secret!.token_uri, `${sandbox.url}/token`)
    assert.equal(webpush!.pushToken!.endpoint, `${sandbox.url}/push/rfc8291`)
  })

  it('list themselves, and clear the recorded calls', async () => {
    assert.equal((await control('')).status, 200)
    assert.equal((await control('/nothing')).status, 404)
    assert.equal((await control('/calls', { method: 'DELETE' })).status, 204)
    assert.deepEqual((await control('/calls')).body, { items: [] })
  })
})
