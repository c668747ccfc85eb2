/**
 * Generated payloads at the webhooks: whatever an authentic call holds, the answer is one that is declared, and the
 * reports are of our form. `SLUICE_PAYLOADS=10000` takes more than the 500 of `npm test`.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SluiceError } from '../../../src/errors.ts'
import { createMailgunForm } from '../../../src/feedback/forms/mailgun.ts'
import { createPostmarkForm } from '../../../src/feedback/forms/postmark.ts'
import { createSendgridForm } from '../../../src/feedback/forms/sendgrid.ts'
import { createSesForm } from '../../../src/feedback/forms/ses.ts'
import { createTwilioForm, twilioSignature } from '../../../src/feedback/forms/twilio.ts'
import { cleanDetail, keyOf, type Report } from '../../../src/feedback/report.ts'
import { createWebhooks } from '../../../src/feedback/webhooks.ts'
import { feedbackTypes } from '../../../src/ports/feedback.ts'
import { testSeed as seed } from '../../harness.ts'
import { ec, jsonCall, mailgunBody, rsa, sendgridCall, snsCall, snsMessage, topic } from '../signers.ts'

const now = Date.UTC(2026, 10, 22, 12)
const numRuns = Number(process.env.SLUICE_PAYLOADS ?? 500)
const reported: Report[] = []
const pem = rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString()
const account = { channel: 'email', account: 'a' } as const
const forms = {
  ses: createSesForm({
    topics: new Set([topic]),
    certificate: pem,
    certificateOf: async () => pem,
    confirm: async () => {},
  }),
  sendgrid: createSendgridForm(ec.publicKey),
  twilio: createTwilioForm('token'),
  mailgun: createMailgunForm('key'),
  postmark: createPostmarkForm('user', 'password'),
}
const names = Object.keys(forms) as readonly (keyof typeof forms)[]
const webhooks = createWebhooks({
  accounts: names.map((form) => ({ ...account, account: form, form, read: forms[form] })),
  feedback: { report: async (reports) => void reported.push(...reports) },
  clock: { now: () => now },
  onRefused: () => {},
})

/** Words of all providers, so that generated objects come deep into the readers. */
const words = [
  ...['event', 'eventType', 'notificationType', 'mail', 'bounce', 'Bounce', 'complaint', 'Complaint', 'open'],
  ...['bouncedRecipients', 'complainedRecipients', 'emailAddress', 'bounceType', 'Permanent', 'timestamp'],
  ...['message', 'headers', 'message-id', 'delivery-status', 'severity', 'permanent', 'recipient', 'failed'],
  ...[
    'RecordType',
    'TypeCode',
    'Metadata',
    'notification_id',
    'tags',
    'notification-id',
    'messageId',
    'email',
  ],
  ...[
    'spamreport',
    'delivered',
    'sg_event_id',
    'sg_message_id',
    'MessageStatus',
    'MessageSid',
    'Body',
    'From',
  ],
  ...['SubscriptionChange', 'SuppressSending', 'SuppressionReason', '__proto__', 'constructor', 'toString'],
]
const word = fc.constantFrom(...words)
const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.oneof(word, fc.string({ unit: 'binary' }), fc.double(), fc.boolean(), fc.constant(null)),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(word, fc.string({ unit: 'binary' })), tie('value'), {
      maxKeys: 6,
      noNullPrototype: false,
    }),
  ),
})).value

let tokens = 0
function callOf(form: keyof typeof forms, payload: unknown) {
  switch (form) {
    case 'ses':
      return snsCall(snsMessage(JSON.stringify(payload) ?? 'null'))
    case 'sendgrid':
      return sendgridCall(Array.isArray(payload) ? payload : [payload], now)
    case 'mailgun':
      tokens += 1
      return jsonCall(mailgunBody(payload as object, now, 'key', `token-${tokens}`))
    case 'postmark':
      return jsonCall(payload ?? null, { authorization: `Basic ${btoa('user:password')}` })
    case 'twilio': {
      const fields = Object.entries(Object(payload) as object).map(([name, each]) => [
        name,
        typeof each === 'string' ? each : JSON.stringify(each),
      ])
      const body = new URLSearchParams(fields as [string, string][])
      const url = 'https://notify.example.com/api/v1/feedback/email/twilio?notification=n1'
      const lists = Object.fromEntries([...new Set(body.keys())].map((name) => [name, body.getAll(name)]))
      const signature = twilioSignature('token', url, lists)
      return { headers: { 'x-twilio-signature': signature }, body: Buffer.from(body.toString()), url }
    }
  }
}

test(`${numRuns} generated payloads get no undeclared answer`, async () => {
  console.log(`SLUICE_SEED=${seed}`)
  const outcomes: Record<string, number> = {}
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...names), value, async (form, payload) => {
      reported.length = 0
      let outcome = 'accepted'
      try {
        await webhooks.take('email', form, callOf(form, payload))
      } catch (error) {
        assert.ok(error instanceof SluiceError, String(error))
        assert.equal(error.code, 'INVALID_REQUEST', `${form}: an authentic call is ${error.code}`)
        outcome = 'refused'
      }
      for (const report of reported) {
        assert.ok(feedbackTypes.includes(report.type) && Number.isFinite(report.at), JSON.stringify(report))
        assert.ok(keyOf(report).length === 32)
        const texts = [report.notificationId, report.providerMessageId, report.address, report.detail]
        for (const each of texts) assert.ok(each === undefined || typeof each === 'string')
        assert.doesNotMatch(cleanDetail(report.detail) ?? '', /\p{Cc}/u)
      }
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    }),
    { seed, numRuns },
  )
  console.log(outcomes)
})

test(`${numRuns} generated bodies without a signature are refused, and nothing is reported`, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...names),
      fc.oneof(
        fc.uint8Array({ maxLength: 200 }),
        fc.json().map((text) => Buffer.from(text)),
      ),
      async (form, bytes) => {
        reported.length = 0
        const body = Buffer.from(bytes)
        await assert.rejects(
          webhooks.take('email', form, { headers: {}, body, url: 'https://notify.example.com/x' }),
          { code: 'UNAUTHENTICATED' },
        )
        assert.equal(reported.length, 0)
      },
    ),
    { seed, numRuns },
  )
})
