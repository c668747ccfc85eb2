/**
 * What a recipient has said about being notified, apart from quiet hours: where they can be reached, and what they do
 * not want. The request's word about an address goes before the stored one, and holds for that request only.
 */
import type { Channel, Priority, Recipient, RecipientFields } from '../model.ts'
import { addressField } from '../model.ts'

/**
 * Whether an opt-out stops this notification. An entry without a category holds for all categories, one without a
 * channel for all channels. A critical one yields only to an entry that names exactly its category and channel:
 * who leaves all mail behind still wants the code to sign in.
 */
export function optedOut(
  recipient: Pick<Recipient, 'optOuts'> | null | undefined,
  category: string,
  channel: Channel,
  priority: Priority,
): boolean {
  const optOuts = recipient?.optOuts
  if (optOuts === undefined) return false
  const exactly = priority === 'critical'
  return optOuts.some(
    (entry) =>
      (entry.category === category || (entry.category === undefined && !exactly)) &&
      (entry.channel === channel || (entry.channel === undefined && !exactly)),
  )
}

/**
 * Where a notification goes on a channel: the address in the request, else the stored one; undefined where there
 * is neither. On `websocket` that is the id.
 */
export function address(
  to: RecipientFields,
  recipient: RecipientFields | null | undefined,
  channel: Channel,
): string | undefined {
  const field = addressField[channel]
  return to[field] ?? recipient?.[field]
}

type StoredField = Exclude<keyof RecipientFields, 'id'>

/** As a record, so that a new field of a recipient cannot be forgotten here. */
const fields = Object.keys({
  email: true,
  phone: true,
  pushToken: true,
  telegramChatId: true,
  slackChannel: true,
  webhookUrl: true,
  timeZone: true,
  locale: true,
} satisfies Record<StoredField, true>) as readonly StoredField[]

/** Everything known for one notification: the fields of the request, and the stored ones where it is silent. */
export function mergeFields(
  to: RecipientFields,
  recipient: RecipientFields | null | undefined,
): RecipientFields {
  if (recipient === null || recipient === undefined) return to
  const merged: { -readonly [K in keyof RecipientFields]: RecipientFields[K] } = { id: to.id }
  for (const field of fields) {
    const value = to[field] ?? recipient[field]
    if (value !== undefined) merged[field] = value
  }
  return merged
}
