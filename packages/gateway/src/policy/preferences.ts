/**
 * Applies a recipient's preferences apart from quiet hours: addresses and opt-outs. An address in the request
 * comes before the stored one, and applies to that request only.
 */
import type { Channel, InvalidAddress, OptOut, Priority, Recipient, RecipientFields } from '../model.ts'
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

/** True where a permanent bounce has shown that this address reaches nobody. */
export function isInvalid(
  recipient: Pick<Recipient, 'invalid'> | null | undefined,
  channel: Channel,
  address: string,
): boolean {
  const invalid = recipient?.invalid
  if (invalid === undefined) return false
  return invalid.some((each) => each.channel === channel && isSameAddress(channel, each.address, address))
}

/** Compares addresses; mailboxes differ in no known service by the case of their letters. */
export function isSameAddress(channel: Channel, a: string, b: string): boolean {
  return channel === 'email' ? mailboxOf(a) === mailboxOf(b) : a === b
}

/** Writes a mailbox with its domain in ASCII: mail servers are given it so, and providers report it so. */
function mailboxOf(text: string): string {
  const domain = text.slice(text.lastIndexOf('@') + 1)
  if (!/[^ -~]/.test(domain)) return text.toLowerCase()
  return `${text.slice(0, -domain.length)}${URL.parse(`http://${domain}`)?.hostname ?? domain}`.toLowerCase()
}

/** Marks an address as invalid; it takes the place of another one of its channel. */
export function withInvalid(recipient: Recipient, mark: InvalidAddress): Recipient {
  const others = recipient.invalid?.filter(({ channel }) => channel !== mark.channel) ?? []
  return { ...recipient, invalid: [...others, mark] }
}

/** Keeps the marks of invalid addresses through a change of the recipient, except where the new address differs. */
export function withKeptMarks(changed: Recipient, before: Pick<Recipient, 'invalid'> | undefined): Recipient {
  const kept = before?.invalid?.filter(({ channel, address }) => {
    const stored = changed[addressField[channel]]
    return stored === undefined || isSameAddress(channel, stored, address)
  })
  const { invalid: _, ...rest } = changed
  return kept === undefined || kept.length === 0 ? rest : { ...rest, invalid: kept }
}

/** Adds an opt-out unless the recipient has it. */
export function withOptOut(recipient: Recipient, optOut: OptOut): Recipient {
  if (hasOptOut(recipient, optOut)) return recipient
  return { ...recipient, optOuts: [...(recipient.optOuts ?? []), optOut] }
}

export function hasOptOut(
  recipient: Pick<Recipient, 'optOuts'> | null | undefined,
  { category, channel }: OptOut,
): boolean {
  const optOuts = recipient?.optOuts ?? []
  return optOuts.some((entry) => entry.category === category && entry.channel === channel)
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
