/**
 * The forms of providers' webhooks against independent libraries: what those accept is taken, and what was tampered
 * with, is too old, was there before or is somebody else's is refused.
 */
import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync } from 'node:crypto'
import https from 'node:https'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { mock, test } from 'node:test'
import { EventWebhook } from '@sendgrid/eventwebhook'
import twilio from 'twilio'
import type { WebhookCall, WebhookForm, WebhookVerdict } from '../../../src/feedback/forms/form.ts'
import { createMailgunForm } from '../../../src/feedback/forms/mailgun.ts'
import { createPostmarkForm } from '../../../src/feedback/forms/postmark.ts'
import { createSendgridForm } from '../../../src/feedback/forms/sendgrid.ts'
import { createSesForm, isSnsUrl } from '../../../src/feedback/forms/ses.ts'
import { createTwilioForm, twilioSignature } from '../../../src/feedback/forms/twilio.ts'
import { ec, jsonCall, mailgunBody, rsa, sendgridCall, snsCall, snsMessage, topic } from '../signers.ts'

const now = Date.UTC(2026, 10, 22, 12)
const at = (form: WebhookForm, call: WebhookCall, when = now): Promise<WebhookVerdict> =>
  Promise.resolve(form(call, when))
const reasonOf = (verdict: WebhookVerdict): string =>
  verdict.kind === 'refused' ? verdict.reason : verdict.kind
const reportsOf = (verdict: WebhookVerdict) => {
  assert.equal(verdict.kind, 'events', JSON.stringify(verdict))
  return verdict.kind === 'events' ? verdict.reports : []
}

// ---- SES through SNS

const bounce = {
  eventType: 'Bounce',
  mail: { messageId: 'ses-1', tags: { 'notification-id': ['n1'] } },
  bounce: {
    bounceType: 'Permanent',
    feedbackId: 'f1',
    timestamp: '2026-11-22T11:59:00.000Z',
    bouncedRecipients: [{ emailAddress: 'ada@example.com', diagnosticCode: '550 5.1.1 unknown' }],
  },
}
// The signature is checked with the key alone: a certificate of our own is as good as Amazon's for that.
const pem = rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString()
const confirmed: string[] = []
const asked: string[] = []
const ses = createSesForm({
  topics: new Set([topic]),
  async certificateOf(url) {
    asked.push(url)
    return pem
  },
  async confirm(url) {
    confirmed.push(url)
  },
})

/** The verdict of the independent library; it gets the key in place of the certificate. */
async function validatorSays(message: object): Promise<boolean> {
  const MessageValidator = createRequire(import.meta.url)('sns-validator') as new () => {
    validate(message: object, done: (error: Error | null) => void): void
  }
  const answer = Object.assign(Readable.from([pem]), { statusCode: 200, setEncoding: () => {} })
  const got = mock.method(https, 'get', ((_url: unknown, respond: (with_: unknown) => void) => {
    setImmediate(() => respond(answer))
    return { on: () => ({ on: () => {} }) }
  }) as never)
  try {
    return await new Promise((resolve) =>
      new MessageValidator().validate(message, (error) => resolve(error === null)),
    )
  } finally {
    got.mock.restore()
  }
}

for (const version of ['1', '2'] as const)
  test(`what SNS signs by version ${version} is taken, with and without a subject, and sns-validator agrees`, async () => {
    for (const patch of [{}, { Subject: 'Amazon SES – “Bounce”' }]) {
      const message = snsMessage(bounce, patch, { version })
      assert.equal(await validatorSays(message), true)
      assert.deepEqual(reportsOf(await at(ses, snsCall(message))), [
        {
          type: 'bounce',
          at: Date.UTC(2026, 10, 22, 11, 59),
          notificationId: 'n1',
          providerMessageId: 'ses-1',
          permanent: true,
          address: 'ada@example.com',
          detail: '550 5.1.1 unknown',
          eventId: 'f1 ada@example.com',
        },
      ])
      for (const tampered of [
        { ...message, Message: message.Message!.replace('ada', 'eve') },
        { ...message, Timestamp: '2026-11-22T12:00:01.000Z' },
        { ...message, Subject: 'other' },
      ]) {
        assert.equal(reasonOf(await at(ses, snsCall(tampered))), 'signature')
        assert.equal(await validatorSays(tampered), false)
      }
    }
  })

test('a message of SNS that is old, of a foreign topic or under a foreign certificate is refused, and fetches nothing', async () => {
  const hour = 3_600_000
  assert.equal(reasonOf(await at(ses, snsCall(snsMessage(bounce)), now + hour - 1)), 'events')
  assert.equal(reasonOf(await at(ses, snsCall(snsMessage(bounce)), now + hour + 1)), 'stale')
  asked.length = 0
  const foreign = snsMessage(bounce, { TopicArn: `${topic}-other` })
  assert.equal(reasonOf(await at(ses, snsCall(foreign))), 'foreign')
  for (const SigningCertURL of [
    'https://sns.eu-west-1.amazonaws.com.evil.example/x.pem',
    'http://sns.eu-west-1.amazonaws.com/x.pem',
    'https://evil.example/sns.eu-west-1.amazonaws.com/x.pem',
    'https://sns.eu-west-1.amazonaws.com@evil.example/x.pem',
    'https://sns.eu-west-1.amazonaws.com:8443/x.pem',
    'https://sns.eu-west-1.amazonaws.com/x.crt',
    'https://s3.amazonaws.com/x.pem',
    '',
  ])
    assert.equal(reasonOf(await at(ses, snsCall(snsMessage(bounce, { SigningCertURL })))), 'signature')
  assert.deepEqual(asked, [])
  const own = generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey
  assert.equal(reasonOf(await at(ses, snsCall(snsMessage(bounce, {}, { key: own })))), 'signature')
  assert.ok(isSnsUrl('https://sns.cn-north-1.amazonaws.com.cn/x.pem'))
})

test('a subscription is confirmed at a SNS host alone', async () => {
  const patch = { Type: 'SubscriptionConfirmation', Token: 't', Message: 'You have chosen to subscribe' }
  const SubscribeURL = 'https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t'
  const good = snsMessage('x', { ...patch, SubscribeURL })
  assert.equal(await validatorSays(good), true)
  assert.deepEqual(reportsOf(await at(ses, snsCall(good))), [])
  assert.deepEqual(confirmed, [SubscribeURL])
  const evil = snsMessage('x', { ...patch, SubscribeURL: 'https://evil.example/?Token=t' })
  assert.equal(reasonOf(await at(ses, snsCall(evil))), 'foreign')
  assert.equal(reasonOf(await at(ses, snsCall({ ...good, Token: 'other' }))), 'signature')
  assert.equal(confirmed.length, 1)
})

test('the events of SES are told in our words, one for each recipient', async () => {
  const mail = { messageId: 'ses-1' }
  const when = '2026-11-22T11:00:00.000Z'
  const kinds = async (event: object) =>
    reportsOf(await at(ses, snsCall(snsMessage({ mail, ...event })))).map(({ type, permanent, address }) => [
      type,
      permanent,
      address,
    ])
  const recipients = [{ emailAddress: 'a@example.com' }, { emailAddress: 'b@example.com' }]
  const soft = { bounceType: 'Transient', timestamp: when, bouncedRecipients: recipients, feedbackId: 'f' }
  assert.deepEqual(await kinds({ notificationType: 'Bounce', bounce: soft }), [
    ['bounce', undefined, 'a@example.com'],
    ['bounce', undefined, 'b@example.com'],
  ])
  const complaint = { timestamp: when, complainedRecipients: recipients.slice(0, 1), feedbackId: 'f' }
  assert.deepEqual(await kinds({ eventType: 'Complaint', complaint }), [
    ['complaint', undefined, 'a@example.com'],
  ])
  for (const [eventType, type] of [
    ['Delivery', 'delivered'],
    ['Open', 'open'],
    ['Click', 'click'],
    ['Subscription', 'unsubscribe'],
  ] as const)
    assert.deepEqual(await kinds({ eventType, [eventType.toLowerCase()]: { timestamp: when } }), [
      [type, undefined, undefined],
    ])
  for (const eventType of ['DeliveryDelay', 'Reject', 'Send', 'toString'])
    assert.deepEqual(await kinds({ eventType }), [])
})

// ---- SendGrid

const sendgridKey = ec.publicKey.export({ type: 'spki', format: 'der' }).toString('base64')
const sendgrid = createSendgridForm(ec.publicKey)
const sendgridEvent = {
  ...{ event: 'bounce', type: 'bounce', email: 'ada@example.com', timestamp: now / 1_000 - 60 },
  ...{ sg_event_id: 'e1', sg_message_id: 'abc.filter001.1', notification_id: 'n1', reason: '550 unknown' },
}

function sendgridSays({ headers, body }: WebhookCall): boolean {
  const webhook = new EventWebhook()
  const [signature, timestamp] = ['signature', 'timestamp'].map((name) =>
    String(headers[`x-twilio-email-event-webhook-${name}`]),
  )
  return webhook.verifySignature(
    webhook.convertPublicKeyToECDSA(sendgridKey),
    body.toString('utf8'),
    signature!,
    timestamp!,
  )
}

test('what SendGrid signs is taken, and its own library agrees', async () => {
  const call = sendgridCall([sendgridEvent], now)
  assert.equal(sendgridSays(call), true)
  assert.deepEqual(reportsOf(await at(sendgrid, call)), [
    {
      type: 'bounce',
      at: now - 60_000,
      permanent: true,
      notificationId: 'n1',
      providerMessageId: 'abc',
      address: 'ada@example.com',
      detail: '550 unknown',
      eventId: 'e1',
    },
  ])
  const tampered = { ...call, body: Buffer.from(call.body.toString().replace('ada', 'eve')) }
  assert.equal(sendgridSays(tampered), false)
  assert.equal(reasonOf(await at(sendgrid, tampered)), 'signature')
  const later = { ...call, headers: { ...call.headers, 'x-twilio-email-event-webhook-timestamp': '1' } }
  assert.equal(reasonOf(await at(sendgrid, later)), 'signature')
  const own = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  assert.equal(reasonOf(await at(sendgrid, sendgridCall([sendgridEvent], now, own))), 'signature')
  assert.equal(reasonOf(await at(sendgrid, call, now + 300_000)), 'events')
  assert.equal(reasonOf(await at(sendgrid, call, now + 301_000)), 'stale')
  assert.equal(reasonOf(await at(sendgrid, { ...call, headers: {} })), 'signature')
  assert.equal(reasonOf(await at(sendgrid, sendgridCall('{}', now))), 'malformed')
})

test('only a bounce of SendGrid that is no block is permanent', async () => {
  const kinds = async (patch: object) =>
    reportsOf(await at(sendgrid, sendgridCall([{ ...sendgridEvent, ...patch }], now))).map(
      ({ type, permanent }) => [type, permanent],
    )
  assert.deepEqual(await kinds({ type: 'blocked' }), [['bounce', undefined]])
  assert.deepEqual(await kinds({ event: 'dropped' }), [['bounce', undefined]])
  assert.deepEqual(await kinds({ event: 'spamreport' }), [['complaint', undefined]])
  assert.deepEqual(await kinds({ event: 'group_unsubscribe' }), [['unsubscribe', undefined]])
  for (const event of ['processed', 'deferred', 'group_resubscribe', '__proto__'])
    assert.deepEqual(await kinds({ event }), [])
})

// ---- Twilio

const authToken = '12345'
const sms = createTwilioForm(authToken)
const callback = 'https://notify.example.com/api/v1/feedback/sms/main?notification=n1'
const form = (fields: Record<string, string>): Buffer => Buffer.from(new URLSearchParams(fields).toString())
const status = { MessageSid: 'SM1', MessageStatus: 'undelivered', ErrorCode: '30005', To: '+15550100200' }

const smsCall = (fields: Record<string, string>, url = callback, token = authToken): WebhookCall => ({
  headers: { 'x-twilio-signature': twilio.getExpectedTwilioSignature(token, url, fields) },
  body: form(fields),
  url,
})

test('the signature of Twilio’s documentation is ours', () => {
  const fields = { CallSid: 'CA1234567890ABCDE', Caller: '+12349013030', Digits: '1234' }
  const parameters = { ...fields, From: '+12349013030', To: '+18005551212' }
  const lists = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, [value]]))
  assert.equal(
    twilioSignature('12345', 'https://mycompany.com/myapp.php?foo=1&bar=2', lists),
    '0/KCTR6DLpKmkAf8muzZqo1nDgQ=',
  )
})

test('what Twilio signs is taken, and its own library agrees', async () => {
  const call = smsCall(status)
  assert.deepEqual(reportsOf(await at(sms, call)), [
    {
      type: 'bounce',
      at: now,
      permanent: true,
      notificationId: 'n1',
      providerMessageId: 'SM1',
      address: '+15550100200',
      detail: 'undelivered: 30005',
      eventId: 'SM1 undelivered',
    },
  ])
  for (const tampered of [
    { ...call, body: form({ ...status, ErrorCode: '30003' }) },
    { ...call, url: call.url.replace('n1', 'n2') },
    { ...call, url: call.url.replace('notify', 'other') },
    smsCall(status, callback, 'the secret of an API key'),
    { ...call, headers: {} },
  ]) {
    const { body, url, headers } = tampered
    const fields = Object.fromEntries(new URLSearchParams(body.toString()))
    const signature = String((headers as Record<string, string>)['x-twilio-signature'])
    assert.equal(twilio.validateRequest(authToken, signature, url, fields), false)
    assert.equal(reasonOf(await at(sms, tampered)), 'signature')
  }
})

test('Twilio may sign the port, and a JSON body by its hash', async () => {
  const withPort = smsCall(status, callback.replace('.com/', '.com:443/'))
  assert.equal(reasonOf(await at(sms, { ...withPort, url: callback })), 'events')
  const body = JSON.stringify(status)
  const url = `${callback}&bodySHA256=${createHash('sha256').update(body).digest('hex')}`
  const call = { ...smsCall({}, url), body: Buffer.from(body) }
  assert.equal(reportsOf(await at(sms, call)).length, 1)
  const signature = String(call.headers['x-twilio-signature'])
  assert.equal(twilio.validateRequestWithBody(authToken, signature, url, body), true)
  const other = { ...call, body: Buffer.from(body.replace('30005', '30003')) }
  assert.equal(reasonOf(await at(sms, other)), 'signature')
})

test('STOP is told by the number that sent it, and other messages are nothing', async () => {
  const inbound = { MessageSid: 'SM9', From: '+15550100200', To: '+15550100100' }
  for (const patch of [{ Body: ' stop ' }, { Body: 'please', OptOutType: 'STOP' }, { Body: 'Unsubscribe' }])
    assert.deepEqual(reportsOf(await at(sms, smsCall({ ...inbound, ...patch }))), [
      { type: 'unsubscribe', isStop: true, at: now, detail: 'STOP', address: '+15550100200', eventId: 'SM9' },
    ])
  assert.deepEqual(reportsOf(await at(sms, smsCall({ ...inbound, Body: 'do not stop' }))), [])
  assert.deepEqual(reportsOf(await at(sms, smsCall({ ...status, MessageStatus: 'queued' }))), [])
})

// ---- Mailgun and Postmark

const mailgunEvent = {
  ...{ event: 'failed', severity: 'permanent', id: 'g1', timestamp: now / 1_000 - 1.5 },
  recipient: 'ada@example.com',
  message: { headers: { 'message-id': 'n1@example.com' } },
  'delivery-status': { code: 550, message: 'unknown' },
}

test('what Mailgun signs is taken with its token, and not when it is old or changed', async () => {
  const mailgun = createMailgunForm('key-1')
  const body = mailgunBody(mailgunEvent, now, 'key-1')
  const first = await at(mailgun, jsonCall(body))
  assert.deepEqual(reportsOf(first), [
    {
      type: 'bounce',
      at: now - 1_500,
      permanent: true,
      notificationId: 'n1',
      providerMessageId: 'n1@example.com',
      address: 'ada@example.com',
      detail: 'unknown',
      eventId: 'g1',
    },
  ])
  assert.ok(first.kind === 'events')
  assert.equal(first.token, (body as { signature: { token: string } }).signature.token)
  const soft = mailgunBody({ ...mailgunEvent, severity: 'temporary' }, now, 'key-1', 'token-2')
  assert.equal(reportsOf(await at(mailgun, jsonCall(soft)))[0]!.permanent, undefined)
  assert.equal(reasonOf(await at(mailgun, jsonCall(soft), now + 301_000)), 'stale')
  assert.equal(reasonOf(await at(mailgun, jsonCall(mailgunBody(mailgunEvent, now, 'key-2')))), 'signature')
  const moved = { ...soft, signature: { ...(soft as { signature: object }).signature, token: 'token-3' } }
  assert.equal(reasonOf(await at(mailgun, jsonCall(moved))), 'signature')
})

test('Postmark is known by user and password', async () => {
  const postmark = createPostmarkForm('hook', 'pässword: 1')
  const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString('base64')}` })
  const good = basic('hook:pässword: 1')
  const bounce = {
    ...{ RecordType: 'Bounce', ID: 4, TypeCode: 1, MessageID: 'p1', Email: 'ada@example.com' },
    ...{ BouncedAt: '2026-11-22T11:00:00Z', Details: '550', Metadata: { notification_id: 'n1' } },
  }
  assert.deepEqual(reportsOf(await at(postmark, jsonCall(bounce, good))), [
    {
      type: 'bounce',
      at: now - 3_600_000,
      permanent: true,
      notificationId: 'n1',
      providerMessageId: 'p1',
      address: 'ada@example.com',
      detail: '550',
      eventId: 'Bounce 4',
    },
  ])
  const soft = reportsOf(await at(postmark, jsonCall({ ...bounce, TypeCode: 4096 }, good)))
  assert.equal(soft[0]!.permanent, undefined)
  for (const headers of [{}, basic('hook:other'), basic('hook'), { authorization: 'Bearer x' }])
    assert.equal(reasonOf(await at(postmark, jsonCall(bounce, headers))), 'signature')
  const change = { RecordType: 'SubscriptionChange', SuppressSending: true, MessageID: 'p1' }
  const kinds = async (patch: object) =>
    reportsOf(await at(postmark, jsonCall({ ...change, ...patch }, good))).map(({ type }) => type)
  assert.deepEqual(await kinds({ SuppressionReason: 'ManualSuppression' }), ['unsubscribe'])
  assert.deepEqual(await kinds({ SuppressionReason: 'HardBounce' }), [])
  assert.deepEqual(await kinds({ RecordType: 'SpamComplaint' }), ['complaint'])
})
