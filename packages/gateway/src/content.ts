/**
 * The text and data of notifications, and the place where they are kept: small payloads with the notification, shared
 * and large payloads on record once, apart from the notifications that refer to them. So waiting, listed and queued
 * notifications cost neither the memory nor the disk of their content once for each recipient.
 */

/** The text of a message, as the application wrote it or a template rendered it. */
export type Content = {
  readonly subject?: string
  readonly text?: string
  readonly html?: string
  readonly title?: string
  readonly mrkdwn?: string // Slack's markup, of a template only: its values are escaped.
}

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue }
export type JsonObject = { readonly [key: string]: JsonValue }

export interface Payload {
  readonly content?: Content
  readonly data?: JsonObject
}

/** A reference to a payload that is stored apart. */
export interface ContentRef {
  readonly id: string
  /** The payload's size as JSON. */
  readonly bytes: number
}

/** A payload that any number of notifications of one tenant refer to. */
export interface SharedContent extends ContentRef, Payload {
  readonly tenant: string
}

/** A shared payload on its way to the record: it has no id until it is stored. */
export type DraftedContent = Payload & Pick<ContentRef, 'bytes'> & Partial<Pick<ContentRef, 'id'>>

/** The size above which a single notification's payload is stored apart too, so that queues and lists stay small. */
export const inlineMaxBytes = 4_096

/** The payload's size as JSON. */
export function bytesOf({ content, data }: Payload): number {
  const sizeOf = (value: Content | JsonObject | undefined): number =>
    value === undefined ? 0 : (encodings.get(value)?.bytes ?? Buffer.byteLength(JSON.stringify(value)))
  return sizeOf(content) + sizeOf(data)
}

/**
 * Values computed from large content or data when its request was parsed, in another thread, so that the event loop
 * does not have to read all of it again.
 */
export interface Encoding {
  /** The value's size as JSON. */
  readonly bytes: number
  /** The value's JSON in UTF-8. */
  readonly json?: Uint8Array
  /** The value's part in a fingerprint. */
  readonly canonical?: string
  /** The object itself is empty and stands for `json`: only `dataOf` may look into it. */
  readonly isStandIn?: true
}

/** Encodings by object, as long as the object lives. */
const encodings = new WeakMap<object, Encoding>()

export const encodingOf = (value: Content | JsonObject): Encoding | undefined => encodings.get(value)

export function keepEncoding(value: object, encoding: Encoding): void {
  encodings.set(value, encoding)
}

/** The value's JSON: in UTF-8 where that is cached, else as a text. */
export const jsonOf = (value: Content | JsonObject): string | Uint8Array =>
  encodings.get(value)?.json ?? JSON.stringify(value)

/** Drops the cached JSON once it is written; the rest stays known. */
export function forgetJson({ content, data }: Payload): void {
  for (const value of [content, data]) {
    const encoding = value === undefined ? undefined : encodings.get(value)
    if (encoding === undefined || encoding.isStandIn === true) continue
    const { json: _, ...rest } = encoding
    encodings.set(value!, rest)
  }
}

/** The data itself, also of a stand-in. */
export function dataOf(data: JsonObject): JsonObject {
  const encoding = encodings.get(data)
  if (encoding?.isStandIn !== true) return data
  const { isStandIn: _, ...rest } = encoding
  const { buffer, byteOffset, length } = encoding.json!
  const read = JSON.parse(Buffer.from(buffer, byteOffset, length).toString()) as JsonObject
  encodings.set(read, rest)
  return read
}

/** Joins a payload: a notification's own data overrides the shared data. */
export function joinedPayload(own: Payload, shared: Payload | undefined): Payload {
  if (shared === undefined) return own
  const content = own.content ?? shared.content
  const data =
    own.data === undefined || shared.data === undefined
      ? (own.data ?? shared.data)
      : { ...shared.data, ...own.data }
  return {
    ...(content === undefined ? {} : { content }),
    ...(data === undefined ? {} : { data }),
  }
}
