import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createSesProvider } from '../../../src/adapters/providers/ses.ts'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account } from '../../../src/ports.ts'
import { openSandboxCalls, type SandboxCalls } from './sandbox-calls.ts'
import { openRig } from './sandbox-rig.ts'

const clock = { now: () => Date.now() }
/** The key that AWS publishes for its examples; the sandbox checks its signatures. */
const account = (url: string, secret = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'): Account => ({
  id: 'a1',
  url,
  secret,
  options: { accessKeyId: 'AKIDEXAMPLE', region: 'eu-central-1', from: 'Shop <shop@example.com>' },
})

exerciseProvider('ses', () => openRig(createSesProvider({ clock, deadlineMs: 2_000 }), account), {
  channel: 'email',
  deadlineMs: 2_000,
  tellsUnknown: true,
  tellsWhenCut: false,
  // SES names no time with its 429.
  tellsRetryAfter: false,
  checksAddress: true,
  tellsLeaving: true,
  remote: true,
})

describe('ses', () => {
  let calls: SandboxCalls
  let secret: string | undefined
  const provider = createSesProvider({ clock })
  before(async () => {
    calls = await openSandboxCalls(provider, (url) => account(url, secret))
  })
  after(() => calls.close())

  it('sends the mail as SMTP would carry it, signed so that another computation agrees', async () => {
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

  it('is refused with another secret, which is the account’s failure, and shows none', async () => {
    secret = 'canary-secret'
    const result = await calls.send(someMessage('email'))
    secret = undefined
    assert.equal(result.outcome, 'failed')
    assert.match((result as { detail: string }).detail, /signature does not match/)
    assert.doesNotMatch(JSON.stringify(result), /canary/)
  })

  it('lays a suspended account to the account', async () => {
    assert.equal((await calls.send(someMessage('email'), 'suspend')).outcome, 'failed')
  })

  it('refuses accounts that can never work', async () => {
    const { options } = account('')
    for (const wrong of [
      { id: 'a1', options },
      { ...account('http://x'), options: { ...options, region: 1 } },
      { ...account('http://x'), options: { ...options, from: 'nobody' } },
    ])
      await assert.rejects(async () => provider.warm?.(wrong), /ses account a1/)
  })
})
