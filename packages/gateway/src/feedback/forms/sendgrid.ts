/**
 * SendGrid's signed event webhook: ECDSA on P-256 with SHA-256 over the timestamp and the raw body. Source:
 * https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features
 */
import { createVerify, type KeyObject } from 'node:crypto'
import type { Report } from '../report.ts'
import {
  defined,
  events,
  headerOf,
  isFresh,
  isRecord,
  type JsonRecord,
  jsonOf,
  malformed,
  refused,
  secondsOf,
  textOf,
  type WebhookForm,
} from './form.ts'

const types: Readonly<Record<string, Report['type']>> = {
  delivered: 'delivered',
  bounce: 'bounce',
  dropped: 'bounce',
  spamreport: 'complaint',
  unsubscribe: 'unsubscribe',
  group_unsubscribe: 'unsubscribe',
  open: 'open',
  click: 'click',
}

export function createSendgridForm(publicKey: KeyObject): WebhookForm {
  return (call, now) => {
    const timestamp = headerOf(call, 'x-twilio-email-event-webhook-timestamp')
    const signature = headerOf(call, 'x-twilio-email-event-webhook-signature')
    if (timestamp === undefined || signature === undefined) return refused('signature')
    const verify = createVerify('sha256').update(timestamp).update(call.body)
    if (!isVerified(() => verify.verify(publicKey, signature, 'base64'))) return refused('signature')
    if (!isFresh(Number(timestamp) * 1_000, now)) return refused('stale')
    const list = jsonOf(call.body.toString('utf8'))
    if (!Array.isArray(list)) return malformed('The body is not a list of events.')
    return events(list.filter(isRecord).flatMap((event) => reportOf(event, now)))
  }
}

function isVerified(verify: () => boolean): boolean {
  try {
    return verify()
  } catch {
    return false
  }
}

function reportOf(event: JsonRecord, now: number): readonly Report[] {
  const name = textOf(event.event) ?? ''
  const type = Object.hasOwn(types, name) ? types[name] : undefined
  if (type === undefined) return []
  // The first part is the id that the sending was answered with.
  const messageId = textOf(event.sg_message_id)?.split('.', 1)[0]
  return [
    {
      type,
      at: secondsOf(event.timestamp, now),
      // A block is of this message, and a dropped one was not tried.
      ...(name === 'bounce' && event.type !== 'blocked' ? { permanent: true } : {}),
      ...defined({
        notificationId: textOf(event.notification_id),
        providerMessageId: textOf(messageId),
        address: textOf(event.email),
        detail: textOf(event.reason) ?? textOf(event.response),
        eventId: textOf(event.sg_event_id),
      }),
    },
  ]
}
