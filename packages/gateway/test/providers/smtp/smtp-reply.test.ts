import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SendResult } from '../../../src/ports.ts'
import { judgeReply, messageIdOf, type Stage } from '../../../src/providers/smtp/smtp-reply.ts'

/** As docs/reference/providers.md has it: what a reply, at which command, makes of a mail. */
const table: readonly (readonly [reply: string, stage: Stage, outcome: string])[] = [
  ['421 4.3.2 shutting down', 'mail', 'outage'],
  ['421 4.3.2 shutting down', 'connect', 'outage'],
  ['450 4.7.1 greylisted, try again later', 'recipient', 'put off'],
  ['450 4.2.0 <ada@example.com>: Recipient address rejected: Greylisted', 'recipient', 'put off'],
  ['450 4.7.1 <mail[10.0.0.1]>: Client host rejected: Greylisted', 'recipient', 'put off'],
  ['451 4.7.1 Greylisting in action, please come back later', 'data', 'put off'],
  ['451 Temporary local problem - please try later', 'recipient', 'put off'],
  ['450 4.2.1 mailbox busy', 'recipient', 'put off'],
  ['451 4.3.0 local error in processing', 'data', 'outage'],
  ['452 4.3.1 insufficient system storage', 'mail', 'outage'],
  ['452 4.2.2 mailbox over quota, limit exceeded', 'recipient', 'put off'],
  ['452 4.2.2 mailbox full', 'data', 'put off'],
  ['452 mailbox full: quota exceeded', 'recipient', 'put off'],
  ['450 4.1.1 <ada@example.com>: Recipient address rejected: unverified address', 'recipient', 'put off'],
  ['450-4.2.1 The user is receiving mail\r\n450 4.2.1 at a rate that prevents more', 'recipient', 'put off'],
  ['550 5.2.1 The account is receiving email at a rate that prevents more', 'recipient', 'put off'],
  ['454 4.7.0 temporary authentication failure', 'auth', 'outage'],
  ['450 4.1.8 <shop@example.com>: Sender address rejected: Domain not found', 'recipient', 'failed'],
  ['450 4.7.1 <mail>: Helo command rejected: Host not found', 'recipient', 'failed'],
  ['454 4.7.1 <ada@example.com>: Relay access denied', 'recipient', 'failed'],
  ['421 Too many messages in this connection', 'mail', 'failed'],
  ['421 Max message per connection reached, closing transmission channel', 'mail', 'failed'],
  ['452 4.5.3 Too many messages in this session', 'recipient', 'failed'],
  ['421 4.7.28 unusual rate', 'mail', 'rate_limited'],
  ['421 Too many connections from your host', 'connect', 'rate_limited'],
  ['450 4.7.0 rate limit exceeded', 'recipient', 'rate_limited'],
  ['451 4.7.1 you are sending too fast, slow down', 'data', 'rate_limited'],
  ['452 4.5.3 too many recipients this hour', 'recipient', 'rate_limited'],
  ['454 Throttling failure: Maximum sending rate exceeded.', 'data', 'rate_limited'],
  ['454 Throttling failure: Daily message quota exceeded.', 'data', 'rate_limited'],
  ['550-5.4.5 Daily user sending\r\n550 5.4.5 limit exceeded', 'data', 'rate_limited'],
  ['550 5.1.1 no such user', 'recipient', 'invalid'],
  ['550 5.1.1 <ada@example.com>: User unknown in relay recipient table', 'recipient', 'invalid'],
  ['550 5.1.0 <ada@example.com>: unknown user', 'recipient', 'invalid'],
  ['550 5.1.2 no such domain', 'recipient', 'invalid'],
  ['550 5.1.10 null MX', 'recipient', 'invalid'],
  ['550 5.2.1 mailbox disabled', 'recipient', 'invalid'],
  ['550 no such user here', 'recipient', 'invalid'],
  ['551 user not local', 'recipient', 'invalid'],
  ['553 mailbox name not allowed', 'recipient', 'invalid'],
  ['501 bad address syntax', 'recipient', 'invalid'],
  ['552 5.2.2 mailbox full', 'recipient', 'rejected'],
  ['550 5.7.1 <ada@example.com>: Recipient address rejected: Access denied', 'recipient', 'rejected'],
  ['550 5.7.1 RESOLVER.RST.NotAuthorized; sender not authorized', 'recipient', 'rejected'],
  ['554 5.7.1 spam', 'data', 'rejected'],
  ['554 5.7.1 Message contains a URL on a block list', 'data', 'rejected'],
  ['550 5.7.1 message refused', 'data', 'rejected'],
  ['550 5.1.1 no such user', 'data', 'rejected'],
  ['552 5.3.4 message too big', 'mail', 'rejected'],
  ['530 5.7.0 authentication required', 'mail', 'failed'],
  ['535 5.7.8 bad credentials', 'auth', 'failed'],
  ['550 5.1.8 sender rejected', 'mail', 'failed'],
  ['554 no service here', 'connect', 'failed'],
  ['554 5.7.1 <shop@example.com>: Sender address rejected: Access denied', 'recipient', 'failed'],
  ['554 5.7.1 Sender address rejected', 'recipient', 'failed'],
  ['554 5.7.1 <ada@example.com>: Relay access denied', 'recipient', 'failed'],
  ['550 5.7.1 relaying denied', 'recipient', 'failed'],
  ['550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain', 'recipient', 'failed'],
  ['550 relay not permitted', 'recipient', 'failed'],
  ['550 5.1.0 <shop@example.com>', 'recipient', 'failed'],
  ['550 5.1.0 shop@example.com unknown here', 'recipient', 'failed'],
  ['553 5.7.1 <shop@example.com>: Sender address rejected: not owned by user ada', 'recipient', 'failed'],
  ['553 5.7.1 <shop@example.com>: not owned by user', 'recipient', 'failed'],
  ['554 5.2.252 SendAsDenied; not allowed to send as shop@example.com', 'recipient', 'failed'],
  ['554 5.2.252 SendAsDenied', 'data', 'failed'],
  ['550 5.7.60 SMTP; Client does not have permissions to send as this sender', 'data', 'failed'],
  ['550 Sender verify failed', 'recipient', 'failed'],
  ['554 5.7.1 Service unavailable; Client host [10.0.0.1] blocked using zen', 'recipient', 'failed'],
  ['550 blocked using a list of spam sources', 'recipient', 'failed'],
  ['550 5.7.26 Unauthenticated email is not accepted due to the domain’s DMARC policy', 'data', 'failed'],
]

/** As the table names it; `put off`: the recipient's fault for now, `outage`: the service is away. */
function nameOf(result: SendResult): string {
  if (result.outcome === 'rejected' && result.invalidAddress) return 'invalid'
  if (result.outcome !== 'failed') return result.outcome
  if (result.recipientFault === true) return result.retry === 'greylisting' ? 'put off' : 'blameless'
  return result.retry ?? 'failed'
}

const parties = { from: 'shop@example.com', to: 'ada@example.com' }

for (const [reply, stage, outcome] of table) {
  test(`“${reply.replaceAll('\r\n', ' ')}” to ${stage} is ${outcome}`, () => {
    const result = judgeReply(Number(reply.slice(0, 3)), reply, stage, parties)
    assert.equal(nameOf(result), outcome)
    assert.equal('detail' in result ? result.detail : '', reply.replaceAll('\r\n', ' '))
  })
}

test('the server’s retry time is passed on as written', () => {
  const said = (text: string) => {
    const result = judgeReply(451, text, 'data')
    return result.outcome === 'rate_limited' ? result.retryAfter : 'no rate limit'
  }
  assert.equal(said('451 rate limit, try again in 60 seconds'), '60')
  assert.equal(said('451 4.7.1 Rate limit exceeded, please try again in 10 minutes'), '600')
  assert.equal(said('450 4.7.0 Too many messages, retry after 2 hours'), '7200')
  assert.equal(said('450 4.7.0 Too many messages, retry after 5 mails'), undefined)
  assert.equal(said('451 rate limited; retry after 5s'), '5')
  assert.equal(said('451 rate limit exceeded'), undefined)
})

test('an unverified address is the account’s fault unless it is the recipient’s alone', () => {
  const said = (identities: string) =>
    nameOf(
      judgeReply(
        554,
        `554 Message rejected: Email address is not verified. The following identities failed the check in region EU-CENTRAL-1: ${identities}`,
        'data',
        parties,
      ),
    )
  assert.equal(said('shop@example.com'), 'failed')
  assert.equal(said('Shop <shop@example.com>, ada@example.com'), 'failed')
  assert.equal(said(''), 'failed')
  assert.equal(said('Ada@example.com'), 'blameless')
})

test('a greylisting server is retried at the time it names', () => {
  const after = (text: string) => {
    const result = judgeReply(450, text, 'recipient', parties)
    return result.outcome === 'failed' ? result.retryAfter : 'not put off'
  }
  assert.equal(after('450 4.7.1 Greylisted for 5 minutes'), '300')
  assert.equal(after('450 4.2.0 Greylisted, try again in 90 seconds'), '90')
  assert.equal(after('450 4.2.0 Greylisted, come back in 1 hour'), '3600')
  assert.equal(after('450 4.2.0 Greylisted'), undefined)
})

test('a detail is one bounded line, whatever the server writes', () => {
  const result = judgeReply(554, `554-first\r\n554 \u001b[31m${'x'.repeat(5_000)}`, 'data')
  assert.ok(result.outcome === 'rejected' && result.detail.length <= 200)
  assert.doesNotMatch(result.detail, /\p{Cc}/u)
})

test('the server’s id of a mail is found in its reply', () => {
  assert.equal(messageIdOf('250 2.0.0 Ok: queued as 4WxYz1234'), '4WxYz1234')
  assert.equal(messageIdOf('250 OK id=1sAbCd-000123-4x'), '1sAbCd-000123-4x')
  assert.equal(
    messageIdOf('250 Ok 0100018f2a3b4c5d-6e7f8a9b-0c1d-4e2f-9a3b-4c5d6e7f8a9b-000000'),
    '0100018f2a3b4c5d-6e7f8a9b-0c1d-4e2f-9a3b-4c5d6e7f8a9b-000000',
  )
  assert.equal(messageIdOf('250 Message accepted'), undefined)
})
