/**
 * Mailgun's webhooks: the body holds its own signature, HMAC-SHA256 over a timestamp and a token that is used once.
 * Source: https://documentation.mailgun.com/docs/mailgun/user-manual/events/webhooks
 */
import { createHmac } from 'node:crypto'
import type { Report } from '../report.ts'
import {
  defined,
  isFresh,
  isRecord,
  isSameSecret,
  jsonOf,
  malformed,
  recordOf,
  refused,
  secondsOf,
  textOf,
  type WebhookForm,
} from './form.ts'

const types: Readonly<Record<string, Report['type']>> = {
  delivered: 'delivered',
  failed: 'bounce',
  complained: 'complaint',
  unsubscribed: 'unsubscribe',
  opened: 'open',
  clicked: 'click',
}

export function createMailgunForm(signingKey: string): WebhookForm {
  return (call, now) => {
    const body = jsonOf(call.body.toString('utf8'))
    if (!isRecord(body)) return refused('signature')
    const { timestamp, token, signature } = recordOf(body.signature)
    if (typeof token !== 'string' || typeof signature !== 'string') return refused('signature')
    if (typeof timestamp !== 'string' && typeof timestamp !== 'number') return refused('signature')
    const expected = createHmac('sha256', signingKey).update(`${timestamp}${token}`).digest('hex')
    if (!isSameSecret(expected, signature)) return refused('signature')
    if (!isFresh(Number(timestamp) * 1_000, now)) return refused('stale')
    const event = body['event-data']
    if (!isRecord(event)) return malformed('The body has no event-data.')
    return { kind: 'events', reports: reportsOf(event, now), token }
  }
}

function reportsOf(event: Readonly<Record<string, unknown>>, now: number): readonly Report[] {
  const name = textOf(event.event) ?? ''
  const type = Object.hasOwn(types, name) ? types[name] : undefined
  if (type === undefined) return []
  const messageId = textOf(recordOf(recordOf(event.message).headers)['message-id'])?.replace(/^<|>$/g, '')
  const status = recordOf(event['delivery-status'])
  return [
    {
      type,
      at: secondsOf(event.timestamp, now),
      ...(type === 'bounce' && event.severity === 'permanent' ? { permanent: true } : {}),
      ...defined({
        // The mail's Message-ID is the notification's id at the sender's domain.
        notificationId: textOf(messageId?.split('@', 1)[0]),
        providerMessageId: messageId,
        address: textOf(event.recipient),
        detail: textOf(status.message) ?? textOf(status.description) ?? textOf(event.reason),
        eventId: textOf(event.id),
      }),
    },
  ]
}
