import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account, SendResult } from '../../../src/ports.ts'
import { createTwilioProvider } from '../../../src/providers/twilio/adapter.ts'
import { createHttpSink } from '../../sinks/http.ts'
import { openSandboxCalls, type SandboxCalls } from '../sandbox-calls.ts'
import { openRig, overApi } from '../sandbox-rig.ts'

const clock = { now: () => Date.now() }
const sid = `AC${'0'.repeat(32)}`
const account = (url: string, options: Account['options'] = { sid, from: '+15550100200' }): Account => ({
  id: 'a1',
  url,
  secret: 'canary-token',
  options,
})

exerciseProvider('twilio', (deadlineMs) => openRig(createTwilioProvider({ clock, deadlineMs }), account), {
  channel: 'sms',
  ...overApi,
})

describe('twilio', () => {
  let calls: SandboxCalls
  let options: Account['options'] | undefined
  const provider = createTwilioProvider({ clock })
  before(async () => {
    calls = await openSandboxCalls(provider, (url) => account(url, options))
  })
  after(() => calls.close())
  const sms = () => someMessage('sms', { content: { text: 'Your code is 123 456 & more' } })

  it('posts a form with the sender, under the account’s credentials', async () => {
    const result = await calls.send(sms())
    assert.match((result as { providerMessageId: string }).providerMessageId, /^SM/)
    const { path, headers, body } = calls.last()
    assert.equal(path, `/2010-04-01/Accounts/${sid}/Messages.json`)
    assert.equal(headers.authorization, `Basic ${Buffer.from(`${sid}:canary-token`).toString('base64')}`)
    assert.deepEqual(Object.fromEntries(new URLSearchParams(body)), {
      To: '+390612345678',
      Body: 'Your code is 123 456 & more',
      From: '+15550100200',
    })
  })

  it('names the address to which Twilio reports the state of a message, with the notification in it', async () => {
    options = {
      sid,
      from: '+15550100200',
      statusCallback: 'https://notify.example.com/api/v1/feedback/sms/a1',
    }
    const message = sms()
    await calls.send(message)
    assert.equal(
      new URLSearchParams(calls.last().body).get('StatusCallback'),
      `https://notify.example.com/api/v1/feedback/sms/a1?notification=${message.id}`,
    )
    options = undefined
  })

  it('names the messaging service instead of a sender, and logs in with an API key', async () => {
    options = { sid, key: `SK${'1'.repeat(32)}`, messagingService: `MG${'2'.repeat(32)}` }
    await calls.send(sms())
    const { headers, body } = calls.last()
    assert.equal(new URLSearchParams(body).get('MessagingServiceSid'), `MG${'2'.repeat(32)}`)
    assert.equal(new URLSearchParams(body).get('From'), null)
    assert.match(Buffer.from(String(headers.authorization).slice(6), 'base64').toString(), /^SK1/)
    options = undefined
  })

  it('blames a suspended account on the account, and shows no secret', async () => {
    const result = await calls.send(sms(), 'suspend')
    assert.equal(result.outcome, 'failed')
    assert.doesNotMatch(JSON.stringify(result), /canary/)
  })

  for (const phone of ['0612345678', '+0123456789', '+39 06 12345678', '+39061234567890123']) {
    it(`makes no call for ${phone}, which is not a number`, async () => {
      const before = calls.server.counters().calls
      const result = await calls.send(someMessage('sms', { to: { id: 'u', phone } }))
      assert.equal(result.outcome === 'rejected' && result.invalidAddress, true)
      assert.equal(calls.server.counters().calls, before)
    })
  }

  it('refuses a text that is too long, and accounts that can never work', async () => {
    const long = await calls.send(someMessage('sms', { content: { text: 'x'.repeat(1_601) } }))
    assert.equal(long.outcome === 'rejected' && !long.invalidAddress, true)
    for (const wrong of [{ sid }, { from: '+15550100200' }, { sid: 'AC1', from: '+15550100200' }])
      await assert.rejects(
        async () => provider.warm?.(account('http://127.0.0.1:1', wrong)),
        /twilio account a1/,
      )
  })
})

describe('the validity of a message at Twilio', () => {
  const now = Date.UTC(2026, 10, 21, 12)
  const cases: readonly (readonly [string, number | undefined, string | null])[] = [
    ['nothing where it has no end', undefined, null],
    ['the seconds until its end', now + 90_500, '90'],
    ['one second at least', now + 10, '1'],
    ['nothing where its end is behind the longest that Twilio keeps any', now + 36_000_000, null],
  ]
  for (const [what, expiresAt, expected] of cases)
    it(`is sent: ${what}`, async (t) => {
      const provider = createTwilioProvider({ clock: { now: () => now } })
      const calls = await openSandboxCalls(provider, (url) => account(url))
      t.after(() => calls.close())
      const message = someMessage('sms', { content: { text: 'x' } })
      const result = await calls.send({ ...message, ...(expiresAt === undefined ? {} : { expiresAt }) })
      assert.equal(result.outcome, 'delivered')
      assert.equal(new URLSearchParams(calls.last().body).get('ValidityPeriod'), expected)
    })
})

describe('what Twilio answers', () => {
  const pair = { outcome: 'failed', pair: true }
  const accounts = { outcome: 'failed' }
  const dead = { outcome: 'rejected', invalidAddress: true }
  const messages = { outcome: 'rejected', invalidAddress: false }
  const cases: readonly (readonly [readonly number[], Partial<SendResult> | object, number?])[] = [
    [[21408, 21606, 21612, 21659], pair],
    [[21212, 21267, 21608, 21660, 21661, 21701, 21702, 21703, 21704, 21705], accounts],
    [[20404], accounts, 404],
    [[20003], accounts, 401],
    [[20005, 30002, 90010], accounts],
    [[21211, 21217, 21265, 21610, 21614, 21635], dead],
    [[21602, 21617, 21619], messages],
    // Nobody knows these yet.
    [[21999, 30999, 63099], pair],
    [[20429], { outcome: 'rate_limited' }, 429],
    [[20503], { outcome: 'failed', retry: 'outage' }, 503],
  ]
  for (const [codes, expected, status = 400] of cases)
    it(`${codes.join(', ')}: ${JSON.stringify(expected)}`, async (t) => {
      const sink = await createHttpSink()
      const provider = createTwilioProvider({ clock })
      t.after(async () => {
        await provider.close()
        await sink.close()
      })
      for (const code of codes) {
        sink.rules = [{ status, body: JSON.stringify({ code, message: 'm', status }) }]
        const message = someMessage('sms', { content: { text: 'x' } })
        const { detail, ...result } = await provider.send(
          message,
          account(sink.url),
          AbortSignal.timeout(5_000),
        )
        assert.deepEqual(result, expected, `${code}: ${detail}`)
      }
    })
})
