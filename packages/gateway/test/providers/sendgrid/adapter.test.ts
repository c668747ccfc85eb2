import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account, Message, SendResult } from '../../../src/ports.ts'
import { createSendgridProvider } from '../../../src/providers/sendgrid/adapter.ts'
import type { SandboxBehaviour } from '../../../src/sandbox/behaviour.ts'
import { createSandboxServer, type SandboxServer } from '../../../src/sandbox/server.ts'
import { blameOf, openAnswers } from '../answers.ts'
import { openRig, overApi } from '../sandbox-rig.ts'

const key = 'SG.canary-key'
const account = (url: string, secret = key): Account => ({
  id: 'a1',
  url,
  secret,
  options: { from: 'Shop <shop@example.com>' },
})

exerciseProvider('sendgrid', (deadlineMs) => openRig(createSendgridProvider({ deadlineMs }), account), {
  channel: 'email',
  ...overApi,
})

describe('sendgrid', () => {
  let server: SandboxServer
  const provider = createSendgridProvider()
  before(async () => {
    server = await createSandboxServer()
  })
  after(async () => {
    await provider.close()
    await server.close()
  })

  const send = (behaviour: SandboxBehaviour, patch: Partial<Message> = {}): Promise<SendResult> => {
    const secret = `${key}-${JSON.stringify(behaviour).length}`
    server.behave(behaviour, secret)
    return provider.send(someMessage('email', patch), account(server.url, secret), AbortSignal.timeout(5_000))
  }

  it('sends one recipient, both parts, and the headers of one-click unsubscribe', async () => {
    const unsubscribeUrl = 'https://notify.example.com/u/token'
    const result = await send({}, { id: 'n-1', unsubscribeUrl })
    assert.equal(result.outcome, 'delivered')
    assert.match((result as { providerMessageId: string }).providerMessageId, /^sandbox-/)
    const { headers, body, path } = server.requests().at(-1)!
    assert.equal(path, '/v3/mail/send')
    assert.equal(headers.authorization, `Bearer ${key}-2`)
    assert.deepEqual(JSON.parse(body), {
      personalizations: [{ to: [{ email: 'ada@example.com' }], custom_args: { notification_id: 'n-1' } }],
      from: { email: 'shop@example.com', name: 'Shop' },
      subject: 'Grüße “Ada” – 你好 👋',
      content: [
        { type: 'text/plain', value: 'A line\n.and a dot' },
        { type: 'text/html', value: '<p>A line</p>' },
      ],
      headers: {
        'X-Notification-Id': 'n-1',
        'List-Unsubscribe': `<${unsubscribeUrl}>`,
        'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
      },
    })
  })

  it('takes the instant of X-RateLimit-Reset for Retry-After', async () => {
    const result = await send({ rates: [{ max: 0, windowMs: 1_000 }], retryAfter: '30' })
    assert.equal(result.outcome, 'rate_limited')
    const until = Date.parse((result as { retryAfter: string }).retryAfter)
    assert.ok(Math.abs(until - Date.now() - 30_000) < 2_500)
  })

  it('blames a suspended account on the account, and a bad address on the address', async () => {
    const suspended = await send({ odds: { suspend: 1 } })
    assert.equal(suspended.outcome, 'failed')
    const refused = await send({ odds: { reject_address: 1 } })
    assert.deepEqual(
      [refused.outcome, (refused as { invalidAddress: boolean }).invalidAddress],
      ['rejected', true],
    )
    assert.doesNotMatch(JSON.stringify([suspended, refused]), /canary/)
  })

  it('keeps line breaks out of the subject', async () => {
    const result = await send({}, { content: { subject: 'a\r\nBcc: b@example.com', text: 'x' } })
    assert.equal(result.outcome, 'rejected')
  })

  it('refuses an account without a key or with an invalid sender, when it is warmed', async () => {
    const bare: Account = { id: 'a', options: { from: 'shop@example.com' } }
    await assert.rejects(async () => provider.warm?.(bare), /API key/)
    await assert.rejects(
      async () => provider.warm?.({ ...bare, secret: key, options: { from: 'nobody' } }),
      (error: Error) => /from/.test(error.message) && !/canary/.test(error.message),
    )
  })
})

const refusal = (field: string | null, message = 'no'): string =>
  JSON.stringify({ errors: [{ message, field, help: null }] })
const said: readonly (readonly [blame: string, status: number, body: string])[] = [
  ['account', 400, refusal('from.email', 'The from email does not contain a valid address.')],
  ['account', 400, refusal('from', 'The from object must be provided.')],
  ['account', 403, refusal('from', 'The from address does not match a verified Sender Identity.')],
  ['address', 400, refusal('personalizations.0.to.0.email')],
  ['message', 400, refusal('content.0.value')],
  ['message', 400, refusal('headers.from')],
  ['message', 413, '<html>too large</html>'],
  ['account', 404, '<html>Not Found</html>'],
  ['rate_limited', 401, refusal(null, 'Maximum credits exceeded')],
  ['account', 401, refusal(null, 'The provided authorization grant is invalid')],
]

describe('a refusal by sendgrid', () => {
  for (const [blame, status, body] of said) {
    it(`as ${status} ${body.slice(0, 60)} is the fault of: ${blame}`, async (t) => {
      const answers = await openAnswers(createSendgridProvider(), account, () => someMessage('email'))
      t.after(() => answers.close())
      assert.equal(blameOf(await answers.to({ status, body })), blame)
    })
  }

  it('is not caused by a missing subject: such a mail is not sent', async (t) => {
    const content = { text: 'only text' }
    const answers = await openAnswers(createSendgridProvider(), account, () =>
      someMessage('email', { content }),
    )
    t.after(() => answers.close())
    assert.equal(blameOf(await answers.to({ status: 202 })), 'message')
    assert.deepEqual(answers.bodies(), [])
  })

  it('of a used-up daily plan blocks the account longer and longer', async (t) => {
    let now = 0
    const provider = createSendgridProvider({ clock: { now: () => now } })
    const answers = await openAnswers(provider, account, () => someMessage('email'))
    t.after(() => answers.close())
    for (const wait of ['60', '120', '240']) {
      const result = await answers.to({ status: 401, body: refusal(null, 'Maximum credits exceeded') })
      assert.equal(result.outcome === 'rate_limited' && result.retryAfter, wait)
      now += Number(wait) * 1_000
    }
  })
})
