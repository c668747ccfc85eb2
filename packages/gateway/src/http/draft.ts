/**
 * From a body that fits its schema to a `Draft`: defaults filled in, instants as numbers, and everything checked
 * that more than one field or the installation has a say in. Pure; what is known of the recipient is asked for after,
 * and only where the request brings no address of its own (`missingAddress`).
 */

import { bytesOf, dataOf } from '../content.ts'
import { type FieldError, SluiceError } from '../errors.ts'
import type { Channel, Content, Draft, JsonObject, Recipient, RecipientFields } from '../model.ts'
import { addressField } from '../model.ts'
import { address } from '../policy/preferences.ts'
import type { Templates } from '../ports.ts'
import { isKnownTooDeep } from './body-parts.ts'
import { dataLevelsMax, isDeeperThan } from './json.ts'
import type { BatchBody, BatchRecipient, NotificationBody } from './schema.ts'
import { parseInstant } from './syntax.ts'
import { invalidRequest } from './validation.ts'

/** What this installation can send. */
export interface Offer {
  readonly templates: Pick<Templates, 'has' | 'hasSubject'>
  /** The channels that a pool serves. */
  readonly channels: ReadonlySet<Channel>
  /** Those on which the accounts themselves say where to. */
  readonly selfAddressed: ReadonlySet<Channel>
  /** Those with a provider that takes nothing without a subject. */
  readonly needsSubject: ReadonlySet<Channel>
  readonly dataMaxBytes: number
}

export type Message = Omit<NotificationBody, 'recipient'> & Partial<Pick<BatchBody, 'recipients'>>

/** What a content must at least have, so that something arrives. */
const contentNeeds: Record<Channel, readonly { readonly anyOf: readonly (keyof Content)[] }[]> = {
  email: [{ anyOf: ['text', 'html'] }],
  sms: [{ anyOf: ['text'] }],
  push: [{ anyOf: ['title', 'text'] }],
  telegram: [{ anyOf: ['text'] }],
  slack: [{ anyOf: ['text'] }],
  webhook: [],
  websocket: [],
}

/** A notification without its recipient: what all recipients of a batch have in common. */
export type Common = Omit<Draft, 'to' | 'job'>

/**
 * Throws INVALID_REQUEST with every fault.
 * @param aheadMs how far the wall clock, by which clients write instants, is ahead of the line of `now`
 */
export function readMessage(body: Message, now: number, offer: Offer, aheadMs = 0): Common {
  const { channel, template, content } = body
  const faults: FieldError[] = []
  if (!offer.channels.has(channel)) {
    faults.push({
      path: '/channel',
      message: `is not served here; there is ${[...offer.channels].join(', ')}`,
    })
  }
  // Beside a template, content is what is said, and the template what digests and limits select by.
  if (content !== undefined) checkContent(channel, content, offer, faults)
  else if (template === undefined)
    faults.push({ path: '/content', message: 'is required where there is no template' })
  if (template !== undefined && !offer.templates.has(template)) {
    faults.push({ path: '/template', message: 'is not the name of a template' })
  } else if (
    template !== undefined &&
    content === undefined &&
    offer.needsSubject.has(channel) &&
    !offer.templates.hasSubject(template, channel)
  ) {
    faults.push({ path: '/template', message: `has no subject for ${channel}, and its provider needs one` })
  }
  const sendAt = body.sendAt === undefined ? undefined : parseInstant(body.sendAt) - aheadMs
  const expiresAt = body.expiresAt === undefined ? undefined : parseInstant(body.expiresAt) - aheadMs
  if (expiresAt !== undefined && expiresAt <= now)
    faults.push({ path: '/expiresAt', message: 'must not be in the past' })
  if (faults.length > 0) throw invalidRequest(faults)

  const common: { -readonly [K in keyof Common]: Common[K] } = {
    channel,
    category: body.category ?? 'product',
    priority: body.priority ?? 'normal',
  }
  if (template !== undefined) common.template = template
  if (body.data !== undefined) common.data = body.data
  if (content !== undefined) common.content = content
  if (body.actor !== undefined) common.actor = body.actor
  if (sendAt !== undefined) common.sendAt = sendAt
  if (expiresAt !== undefined) common.expiresAt = expiresAt
  return common
}

function checkContent(
  channel: Channel,
  content: Content,
  { needsSubject }: Pick<Offer, 'needsSubject'>,
  faults: FieldError[],
): void {
  if (needsSubject.has(channel) && (content.subject ?? content.title ?? '').trim() === '')
    faults.push({ path: '/content/subject', message: `is required: the provider of ${channel} needs one` })
  for (const { anyOf } of contentNeeds[channel]) {
    if (anyOf.some((field) => content[field] !== undefined)) continue
    const path = anyOf.length === 1 ? `/content/${anyOf[0]}` : '/content'
    faults.push({
      path,
      message: `is required for ${channel}${anyOf.length === 1 ? '' : `: ${anyOf.join(' or ')}`}`,
    })
  }
}

/** The message with its data itself, where a stand-in has come with it; to be called when that is not too long. */
export function withData(message: Common): Common {
  return message.data === undefined ? message : Object.assign(message, { data: dataOf(message.data) })
}

/** An id alone stands for an object with that id. */
export function readRecipient(recipient: RecipientFields | string): RecipientFields {
  return typeof recipient === 'string' ? { id: recipient } : recipient
}

/** The recipient of a batch and what it is sent: its own data over what is common. */
export function readBatchRecipient(entry: BatchRecipient | string, common: Common): Draft {
  if (typeof entry === 'string') return { to: { id: entry }, ...common }
  const { data: own, ...to } = entry
  return own === undefined ? { to, ...common } : { to, ...common, data: { ...common.data, ...dataOf(own) } }
}

/**
 * Throws INVALID_REQUEST for data that is too deep, PAYLOAD_TOO_LARGE for data that is too long. `bodyBytes` bounds
 * from above what the data can be: JSON grows at most sixfold when it is read and written again (1e20).
 */
export function checkData(
  data: JsonObject | undefined,
  bodyBytes: number,
  offer: Offer,
  path = '/data',
): void {
  if (data === undefined) return
  if (isKnownTooDeep(data) || isDeeperThan(data, dataLevelsMax)) {
    throw invalidRequest([{ path, message: `must not be deeper than ${dataLevelsMax} levels` }])
  }
  if (bodyBytes * 6 <= offer.dataMaxBytes) return
  const bytes = bytesOf({ data })
  if (bytes > offer.dataMaxBytes) {
    throw new SluiceError(
      'PAYLOAD_TOO_LARGE',
      `data is ${bytes} bytes as JSON; at most ${offer.dataMaxBytes} are taken.`,
    )
  }
}

/**
 * The same for the data of one recipient, which goes over what is common to all. Their sizes are added up first, and
 * only where that is too much the two are put together and measured. Answers the bytes that it has read.
 */
export function checkOwnData(
  own: JsonObject,
  common: JsonObject | undefined,
  commonBytes: number,
  bodyBytes: number,
  offer: Offer,
  path: string,
): number {
  const ownBytes = bytesOf({ data: own })
  if (ownBytes > offer.dataMaxBytes) checkData(own, bodyBytes, offer, path)
  if (ownBytes + commonBytes > offer.dataMaxBytes) {
    checkData({ ...common, ...dataOf(own) }, bodyBytes, offer, path)
    return ownBytes + commonBytes
  }
  checkData(own, 0, offer, path)
  return ownBytes
}

/** Whether the request or the account says where to; else the recipient must be known. */
export function hasAddress(draft: Draft, { selfAddressed }: Pick<Offer, 'selfAddressed'>): boolean {
  return selfAddressed.has(draft.channel) || draft.to[addressField[draft.channel]] !== undefined
}

/** The fault of a notification that nobody knows an address for. */
export function missingAddress(
  draft: Draft,
  recipient: Recipient | null,
  path = '/recipient',
): FieldError | undefined {
  if (address(draft.to, recipient, draft.channel) !== undefined) return undefined
  return {
    path: `${path}/${addressField[draft.channel]}`,
    message: 'is required: none is stored for this recipient',
  }
}
