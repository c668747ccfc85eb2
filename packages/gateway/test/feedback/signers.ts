/** Signs webhooks as providers do, by code that shares nothing with what checks them. */
import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { WebhookCall } from '../../src/feedback/forms/form.ts'

export const rsa = generateKeyPairSync('rsa', { modulusLength: 2_048 })
export const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
export const topic = 'arn:aws:sns:eu-west-1:123456789012:ses-events'
const certUrl = 'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem'

export type SnsMessage = Record<string, string>

/** A message of SNS with its signature. */
export function snsMessage(
  message: object | string,
  patch: SnsMessage & { readonly at?: never } = {},
  { version = '2', key = rsa.privateKey }: { readonly version?: '1' | '2'; readonly key?: KeyObject } = {},
): SnsMessage {
  const fields: SnsMessage = {
    Type: 'Notification',
    MessageId: 'm-1',
    TopicArn: topic,
    Message: typeof message === 'string' ? message : JSON.stringify(message),
    Timestamp: '2026-11-22T12:00:00.000Z',
    SignatureVersion: version,
    SigningCertURL: certUrl,
    ...patch,
  }
  const names =
    fields.Type === 'Notification'
      ? ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type']
      : ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type']
  const text = names.flatMap((name) => (fields[name] === undefined ? [] : [name, fields[name]])).join('\n')
  const algorithm = version === '1' ? 'sha1' : 'sha256'
  return { ...fields, Signature: sign(algorithm, Buffer.from(`${text}\n`), key).toString('base64') }
}

export const snsCall = (message: object): WebhookCall => ({
  headers: { 'content-type': 'text/plain; charset=UTF-8' },
  body: Buffer.from(JSON.stringify(message)),
  url: 'https://notify.example.com/api/v1/feedback/email/main',
})

/** A call of SendGrid's signed event webhook. */
export function sendgridCall(events: unknown, at: number, key: KeyObject = ec.privateKey): WebhookCall {
  const body = Buffer.from(typeof events === 'string' ? events : JSON.stringify(events))
  const timestamp = String(Math.floor(at / 1_000))
  const signature = sign('sha256', Buffer.concat([Buffer.from(timestamp), body]), key).toString('base64')
  return {
    headers: {
      'x-twilio-email-event-webhook-signature': signature,
      'x-twilio-email-event-webhook-timestamp': timestamp,
    },
    body,
    url: 'https://notify.example.com/api/v1/feedback/email/main',
  }
}

/** A body of Mailgun's webhook. */
export function mailgunBody(event: object, at: number, key: string, token = 'token-1'): object {
  const timestamp = String(Math.floor(at / 1_000))
  const signature = createHmac('sha256', key)
    .update(timestamp + token)
    .digest('hex')
  return { signature: { timestamp, token, signature }, 'event-data': event }
}

export const jsonCall = (body: unknown, headers: WebhookCall['headers'] = {}): WebhookCall => ({
  headers,
  body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
  url: 'https://notify.example.com/api/v1/feedback/email/main',
})
