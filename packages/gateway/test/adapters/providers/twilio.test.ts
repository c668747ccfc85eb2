import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createTwilioProvider } from '../../../src/adapters/providers/twilio.ts'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account } from '../../../src/ports.ts'
import { openSandboxCalls, type SandboxCalls } from './sandbox-calls.ts'
import { openRig } from './sandbox-rig.ts'

const sid = `AC${'0'.repeat(32)}`
const account = (url: string, options: Account['options'] = { sid, from: '+15550100200' }): Account => ({
  id: 'a1',
  url,
  secret: 'canary-token',
  options,
})

exerciseProvider('twilio', () => openRig(createTwilioProvider({ deadlineMs: 2_000 }), account), {
  channel: 'sms',
  deadlineMs: 2_000,
  tellsUnknown: true,
  tellsWhenCut: false,
  tellsRetryAfter: true,
  checksAddress: true,
  tellsLeaving: true,
  remote: true,
})

describe('twilio', () => {
  let calls: SandboxCalls
  let options: Account['options'] | undefined
  const provider = createTwilioProvider()
  before(async () => {
    calls = await openSandboxCalls(provider, (url) => account(url, options))
  })
  after(() => calls.close())
  const sms = () => someMessage('sms', { content: { text: 'Your code is 123 456 & more' } })

  it('sends a form with the sender, and logs in with the account', async () => {
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

  it('names the messaging service instead of a sender, and logs in with an API key', async () => {
    options = { sid, key: `SK${'1'.repeat(32)}`, messagingService: `MG${'2'.repeat(32)}` }
    await calls.send(sms())
    const { headers, body } = calls.last()
    assert.equal(new URLSearchParams(body).get('MessagingServiceSid'), `MG${'2'.repeat(32)}`)
    assert.equal(new URLSearchParams(body).get('From'), null)
    assert.match(Buffer.from(String(headers.authorization).slice(6), 'base64').toString(), /^SK1/)
    options = undefined
  })

  it('lays a suspended account to the account, and shows no secret', async () => {
    const result = await calls.send(sms(), 'suspend')
    assert.equal(result.outcome, 'failed')
    assert.doesNotMatch(JSON.stringify(result), /canary/)
  })

  for (const phone of ['0612345678', '+0123456789', '+39 06 12345678', '+39061234567890123']) {
    it(`asks nobody for ${phone}, which is no number`, async () => {
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
