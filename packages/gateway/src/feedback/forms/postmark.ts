/**
 * Postmark's webhooks, which are not signed: the operator gives their address a user and a password. Source:
 * https://postmarkapp.com/developer/webhooks/webhooks-overview
 */
import type { Report } from '../report.ts'
import {
  defined,
  events,
  headerOf,
  instantOf,
  isRecord,
  isSameSecret,
  type JsonRecord,
  jsonOf,
  malformed,
  recordOf,
  refused,
  textOf,
  type WebhookForm,
} from './form.ts'

/** The type of a bounce after which the address reaches nobody: https://postmarkapp.com/developer/api/bounce-api */
const hardBounce = 1

export function createPostmarkForm(user: string, password: string): WebhookForm {
  const expected = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
  return (call, now) => {
    const given = headerOf(call, 'authorization')
    if (given === undefined || !isSameSecret(given.replace(/^basic +/i, 'Basic '), expected))
      return refused('signature')
    const body = jsonOf(call.body.toString('utf8'))
    if (!isRecord(body)) return malformed('The body is not a JSON object.')
    return events(reportsOf(body, now))
  }
}

function reportsOf(record: JsonRecord, now: number): readonly Report[] {
  const { RecordType: kind, MessageID: messageId } = record
  const common = (at: unknown): Omit<Report, 'type'> => ({
    at: instantOf(at, now),
    ...defined({
      notificationId: textOf(recordOf(record.Metadata).notification_id),
      providerMessageId: textOf(messageId),
      address: textOf(record.Email) ?? textOf(record.Recipient),
      detail: textOf(record.Details) ?? textOf(record.Description) ?? textOf(record.SuppressionReason),
      eventId: typeof record.ID === 'number' ? `${kind} ${record.ID}` : undefined,
    }),
  })
  switch (kind) {
    case 'Bounce':
      return [
        {
          type: 'bounce',
          ...common(record.BouncedAt),
          ...(record.TypeCode === hardBounce ? { permanent: true } : {}),
        },
      ]
    case 'SpamComplaint':
      return [{ type: 'complaint', ...common(record.BouncedAt) }]
    case 'Delivery':
      return [{ type: 'delivered', ...common(record.DeliveredAt) }]
    case 'Open':
      return [{ type: 'open', ...common(record.ReceivedAt) }]
    case 'Click':
      return [{ type: 'click', ...common(record.ReceivedAt) }]
    case 'SubscriptionChange': {
      // A suppression after a bounce or a complaint is reported by that one.
      const isOwnWish = record.SuppressSending === true && record.SuppressionReason === 'ManualSuppression'
      return isOwnWish ? [{ type: 'unsubscribe', ...common(record.ChangedAt) }] : []
    }
    default:
      return []
  }
}
