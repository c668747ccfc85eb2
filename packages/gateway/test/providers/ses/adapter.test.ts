import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account } from '../../../src/ports.ts'
import { createSesProvider } from '../../../src/providers/ses/adapter.ts'
import { blameOf, openAnswers } from '../answers.ts'
import { openSandboxCalls, type SandboxCalls } from '../sandbox-calls.ts'
import { openRig, overApi } from '../sandbox-rig.ts'

const clock = { now: () => Date.now() }
/** The key that AWS publishes for its examples; the sandbox checks its signatures. */
const account = (url: string, secret = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'): Account => ({
  id: 'a1',
  url,
  secret,
  options: { accessKeyId: 'AKIDEXAMPLE', region: 'eu-central-1', from: 'Shop <shop@example.com>' },
})

exerciseProvider('ses', (deadlineMs) => openRig(createSesProvider({ clock, deadlineMs }), account), {
  channel: 'email',
  ...overApi,
  // SES names no time with its 429.
  tellsRetryAfter: false,
})

describe('ses', () => {
  let calls: SandboxCalls
  let secret: string | undefined
  const provider = createSesProvider({ clock })
  before(async () => {
    calls = await openSandboxCalls(provider, (url) => account(url, secret))
  })
  after(() => calls.close())

  it('sends the mail as SMTP would, with a signature that an independent computation confirms', async () => {
    const unsubscribeUrl = 'https://notify.example.com/u/token'
    const result = await calls.send(someMessage('email', { id: 'n-1', unsubscribeUrl }))
    assert.equal(result.outcome, 'delivered')
    const body = JSON.parse(calls.last().body) as {
      Content: { Raw: { Data: string } }
      Destination: unknown
      EmailTags: unknown
    }
    assert.deepEqual(body.Destination, { ToAddresses: ['ada@example.com'] })
    assert.deepEqual(body.EmailTags, [{ Name: 'notification-id', Value: 'n-1' }])
    const mail = Buffer.from(body.Content.Raw.Data, 'base64').toString()
    assert.match(mail, /^From: Shop <shop@example\.com>\r\nTo: ada@example\.com\r\n/)
    assert.match(mail, /X-Notification-Id: n-1\r\n/)
    assert.match(mail, /List-Unsubscribe: <https:\/\/notify\.example\.com\/u\/token>\r\n/)
  })

  it('fails the account under a wrong secret, and shows none', async () => {
    secret = 'canary-secret'
    const result = await calls.send(someMessage('email'))
    secret = undefined
    assert.equal(result.outcome, 'failed')
    assert.match((result as { detail: string }).detail, /signature does not match/)
    assert.doesNotMatch(JSON.stringify(result), /canary/)
  })

  it('blames a suspended account on the account', async () => {
    assert.equal((await calls.send(someMessage('email'), 'suspend')).outcome, 'failed')
  })

  it('refuses accounts that can never work, when they are warmed', async () => {
    const { options } = account('')
    for (const wrong of [
      { id: 'a1', options },
      { ...account('http://x'), options: { ...options, region: 1 } },
      { ...account('http://x'), options: { ...options, from: 'nobody' } },
    ])
      await assert.rejects(async () => provider.warm?.(wrong), /ses account a1/)
  })
})

const identities = (named: string): string =>
  `Email address is not verified. The following identities failed the check in region EU-CENTRAL-1: ${named}`
const said: readonly (readonly [blame: string, status: number, kind: string, message: string])[] = [
  ['account', 400, 'MessageRejected', identities('shop@example.com')],
  ['account', 400, 'MessageRejected', identities('Shop <shop@example.com>, ada@example.com')],
  ['account', 400, 'MessageRejected', identities('example.com')],
  ['account', 400, 'MessageRejected', 'Email address is not verified.'],
  // In SES’s sandbox the recipient has to be verified too: another account may carry it, and this one carries others.
  ['recipient', 400, 'MessageRejected', identities('ada@example.com')],
  ['message', 400, 'MessageRejected', 'The message contains a virus.'],
  ['message', 400, 'BadRequestException', 'Missing header'],
  ['address', 400, 'BadRequestException', 'Illegal address'],
  ['account', 400, 'UnrecognizedClientException', 'The security token is invalid'],
  ['account', 400, 'RequestExpired', 'Request is too old'],
  ['account', 400, 'ExpiredTokenException', 'The security token has expired'],
  ['account', 400, 'AccessDeniedException', 'not authorized to perform ses:SendEmail'],
  ['account', 404, 'NotFoundException', 'Configuration set does not exist'],
  ['rate_limited', 429, 'TooManyRequestsException', 'Maximum sending rate exceeded.'],
  ['rate_limited', 400, 'ThrottlingException', 'Daily message quota exceeded'],
]

describe('a refusal by ses', () => {
  for (const [blame, status, kind, message] of said) {
    it(`as ${kind} “${message.slice(-40)}” is the fault of: ${blame}`, async (t) => {
      const answers = await openAnswers(createSesProvider({ clock }), account, () => someMessage('email'))
      t.after(() => answers.close())
      const body = JSON.stringify({ message })
      const headers = { 'x-amzn-errortype': `${kind}:http://internal.amazon.com/` }
      assert.equal(blameOf(await answers.to({ status, headers, body })), blame)
      const inBody = JSON.stringify({ __type: `com.amazonaws.ses#${kind}`, message })
      assert.equal(blameOf(await answers.to({ status, body: inBody })), blame)
    })
  }

  it('by an intermediary counts for no other party', async (t) => {
    const answers = await openAnswers(createSesProvider({ clock }), account, () => someMessage('email'))
    t.after(() => answers.close())
    assert.equal(blameOf(await answers.to({ status: 404, body: '<html>Not Found</html>' })), 'account')
    assert.equal(blameOf(await answers.to({ status: 413, body: 'Request Entity Too Large' })), 'message')
  })

  it('for a daily quota blocks the account longer and longer, until a mail goes through', async (t) => {
    let now = Date.UTC(2026, 10, 22)
    const answers = await openAnswers(createSesProvider({ clock: { now: () => now } }), account, () =>
      someMessage('email'),
    )
    t.after(() => answers.close())
    const quota = {
      status: 400,
      headers: { 'x-amzn-errortype': 'ThrottlingException' },
      body: '{"message":"Daily message quota exceeded"}',
    }
    const waits: number[] = []
    for (let trial = 0; trial < 4; trial += 1) {
      const result = await answers.to(quota)
      assert.ok(result.outcome === 'rate_limited')
      waits.push(Number(result.retryAfter))
      now += waits.at(-1)! * 1_000
    }
    assert.deepEqual(waits, [60, 120, 240, 480])
    assert.equal((await answers.to({ body: '{"MessageId":"1"}' })).outcome, 'delivered')
    const again = await answers.to(quota)
    assert.equal(again.outcome === 'rate_limited' && again.retryAfter, '60')
    // The rate a second is no quota: what SES says of it names no time, and the account is free again in seconds.
    now += 60_000
    const rate = await answers.to({ ...quota, body: '{"message":"Maximum sending rate exceeded."}' })
    assert.equal(rate.outcome === 'rate_limited' && rate.retryAfter, undefined)
  })
})
