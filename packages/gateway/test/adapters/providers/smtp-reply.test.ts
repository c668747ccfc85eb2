import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgeReply, messageIdOf, type Stage } from '../../../src/adapters/providers/smtp-reply.ts'

/** As docs/reference/providers.md has it: what a reply, at which command, makes of a mail. */
const table: readonly (readonly [reply: string, stage: Stage, outcome: string])[] = [
  ['421 4.3.2 shutting down', 'mail', 'failed'],
  ['450 4.7.1 greylisted, try again later', 'recipient', 'failed'],
  ['450 4.2.1 mailbox busy', 'recipient', 'failed'],
  ['451 4.3.0 local error in processing', 'data', 'failed'],
  ['452 4.3.1 insufficient system storage', 'mail', 'failed'],
  ['452 4.2.2 mailbox over quota, limit exceeded', 'recipient', 'failed'],
  ['421 4.7.28 unusual rate', 'mail', 'rate_limited'],
  ['421 Too many connections from your host', 'connect', 'rate_limited'],
  ['450 4.7.0 rate limit exceeded', 'recipient', 'rate_limited'],
  ['451 4.7.1 you are sending too fast, slow down', 'data', 'rate_limited'],
  ['452 4.5.3 too many recipients this hour', 'recipient', 'rate_limited'],
  ['454 Throttling failure: Maximum sending rate exceeded.', 'data', 'rate_limited'],
  ['550 5.1.1 no such user', 'recipient', 'invalid'],
  ['550 5.1.2 no such domain', 'recipient', 'invalid'],
  ['550 5.1.10 null MX', 'recipient', 'invalid'],
  ['550 5.2.1 mailbox disabled', 'recipient', 'invalid'],
  ['550 no such user here', 'recipient', 'invalid'],
  ['551 user not local', 'recipient', 'invalid'],
  ['553 mailbox name not allowed', 'recipient', 'invalid'],
  ['501 bad address syntax', 'recipient', 'invalid'],
  ['550 5.7.1 relaying denied', 'recipient', 'rejected'],
  ['550 blocked using a list of spam sources', 'recipient', 'rejected'],
  ['552 5.2.2 mailbox full', 'recipient', 'rejected'],
  ['554 5.7.1 spam', 'data', 'rejected'],
  ['550 5.7.1 message refused', 'data', 'rejected'],
  ['550 5.1.1 no such user', 'data', 'rejected'],
  ['552 5.3.4 message too big', 'mail', 'rejected'],
  ['530 5.7.0 authentication required', 'mail', 'failed'],
  ['535 5.7.8 bad credentials', 'auth', 'failed'],
  ['550 5.1.8 sender rejected', 'mail', 'failed'],
  ['554 no service here', 'connect', 'failed'],
]

for (const [reply, stage, outcome] of table) {
  test(`“${reply}” to ${stage} is ${outcome}`, () => {
    const result = judgeReply(Number(reply.slice(0, 3)), reply, stage)
    const said = result.outcome === 'rejected' && result.invalidAddress ? 'invalid' : result.outcome
    assert.equal(said, outcome)
    assert.equal('detail' in result ? result.detail : '', reply)
  })
}

test('a time that the server names is passed on as it wrote it', () => {
  const said = (text: string) => {
    const result = judgeReply(451, text, 'data')
    return result.outcome === 'rate_limited' ? result.retryAfter : 'no rate limit'
  }
  assert.equal(said('451 rate limit, try again in 60 seconds'), '60')
  assert.equal(said('451 rate limited; retry after 5s'), '5')
  assert.equal(said('451 rate limit exceeded'), undefined)
})

test('a detail is one bounded line, whatever the server writes', () => {
  const result = judgeReply(554, `554-first\r\n554 \u001b[31m${'x'.repeat(5_000)}`, 'data')
  assert.ok(result.outcome === 'rejected' && result.detail.length <= 200)
  assert.doesNotMatch(result.detail, /\p{Cc}/u)
})

test('the names that servers give to a mail are found', () => {
  assert.equal(messageIdOf('250 2.0.0 Ok: queued as 4WxYz1234'), '4WxYz1234')
  assert.equal(messageIdOf('250 OK id=1sAbCd-000123-4x'), '1sAbCd-000123-4x')
  assert.equal(
    messageIdOf('250 Ok 0100018f2a3b4c5d-6e7f8a9b-0c1d-4e2f-9a3b-4c5d6e7f8a9b-000000'),
    '0100018f2a3b4c5d-6e7f8a9b-0c1d-4e2f-9a3b-4c5d6e7f8a9b-000000',
  )
  assert.equal(messageIdOf('250 Message accepted'), undefined)
})
