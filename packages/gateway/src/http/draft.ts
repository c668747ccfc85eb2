/**
 * Turns a body that fits its schema into a `Draft`: defaults filled in, instants as numbers, and every check
 * that concerns several fields or the installation. Pure; the recipient is read later, and only where the
 * request brings no address of its own (`missingAddress`).
 */

import { dataOf, encodingOf, inlineMaxBytes, keepEncoding } from '../content.ts'
import type { FieldError } from '../errors.ts'
import type { Channel, Content, Draft, JsonObject, RecipientFields } from '../model.ts'
import type { Templates } from '../ports.ts'
import type { BatchBody, BatchRecipient, NotificationBody } from './schema.ts'
import { parseInstant } from './syntax.ts'
import { invalidRequest } from './validation.ts'

/** The channels and providers of this installation. */
export interface Offer {
  readonly templates: Pick<Templates, 'has' | 'hasSubject'>
  /** The channels that a pool serves. */
  readonly channels: ReadonlySet<Channel>
  /** Channels on which the accounts have a fixed address. */
  readonly selfAddressed: ReadonlySet<Channel>
  /** Channels with a provider that requires a subject. */
  readonly needsSubject: ReadonlySet<Channel>
  readonly dataMaxBytes: number
}

/** The body of a notification, or of a batch, without recipients. */
export type MessageBody = Omit<NotificationBody, 'recipient'> & Partial<Pick<BatchBody, 'recipients'>>

/** The least fields of a content, so that something arrives. */
const contentNeeds: Record<Channel, readonly { readonly anyOf: readonly (keyof Content)[] }[]> = {
  email: [{ anyOf: ['text', 'html'] }],
  sms: [{ anyOf: ['text'] }],
  push: [{ anyOf: ['title', 'text'] }],
  telegram: [{ anyOf: ['text'] }],
  slack: [{ anyOf: ['text'] }],
  webhook: [],
  websocket: [],
}

/** A notification without its recipient: the fields that all recipients of a batch share. */
export type CommonDraft = Omit<Draft, 'to' | 'job'>

/**
 * Reads the fields that all recipients share. Throws INVALID_REQUEST with every fault.
 * @param aheadMs how far the wall clock, by which clients write instants, is ahead of the time of `now`
 */
export function readMessage(body: MessageBody, now: number, offer: Offer, aheadMs = 0): CommonDraft {
  const { channel, template, content } = body
  const faults: FieldError[] = []
  if (!offer.channels.has(channel)) {
    faults.push({
      path: '/channel',
      message: `is not served here; there is ${[...offer.channels].join(', ')}`,
    })
  }
  // Where both are given the content is sent, and the template only selects digests and limits.
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

  const common: { -readonly [K in keyof CommonDraft]: CommonDraft[K] } = {
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

/** Loads the message's data where a stand-in represents it; to be called once its length is checked. */
export function withData(message: CommonDraft): CommonDraft {
  return message.data === undefined ? message : Object.assign(message, { data: dataOf(message.data) })
}

/** An id alone is short for an object with that id. */
export function readRecipient(recipient: RecipientFields | string): RecipientFields {
  return typeof recipient === 'string' ? { id: recipient } : recipient
}

/** Makes the draft of one recipient of a batch: its own data over the common data. */
export function readBatchRecipient(entry: BatchRecipient | string, common: CommonDraft): Draft {
  if (typeof entry === 'string') return { to: { id: entry }, ...common }
  const { data: own, ...to } = entry
  if (own === undefined) return { to, ...common }
  const data = ownData(own)
  return { to, ...common, data: common.data === undefined ? data : { ...common.data, ...data } }
}

/**
 * Loads the data of a recipient. Where it stays in the notification its JSON is forgotten: that is a piece of the whole
 * request, which would stay in memory with it.
 */
function ownData(own: JsonObject): JsonObject {
  const data = dataOf(own)
  const bytes = encodingOf(data)?.bytes
  if (bytes !== undefined && bytes <= inlineMaxBytes) keepEncoding(data, { bytes })
  return data
}
