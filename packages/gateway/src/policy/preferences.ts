/**
 * Applies a recipient's preferences apart from quiet hours: addresses and opt-outs. An address in the request
 * comes before the stored one, and applies to that request only.
 */
import type { Channel, Priority, Recipient, RecipientFields } from '../model.ts'
import { addressField } from '../model.ts'

/**
 * True where an opt-out stops this notification. An entry without a category applies to all categories, one
 * without a channel to all channels. A critical notification yields only to an entry that names exactly its
 * category and channel: a recipient who opts out of all mail still needs the code to sign in.
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
 * Returns the address on a channel: the one in the request, else the stored one; undefined where there is
 * neither. On `websocket` that is the id.
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

/** A record, so that a new field of a recipient cannot be forgotten here. */
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

/** Merges a recipient's fields: those of the request, and the stored ones where it has none. */
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
