/**
 * The text and the data that a notification carries, and where they are kept: little of it with the notification, that
 * of a batch and everything large on record once, apart from the notifications that refer to it. So what waits, what is
 * listed and what is queued costs neither the memory nor the disk of its content once for each recipient.
 */

/** Text of a message, as the application wrote it or a template rendered it. */
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

/** Names a payload that stands on record apart. */
export interface ContentRef {
  readonly id: string
  /** Its size as JSON. */
  readonly bytes: number
}

/** A payload that any number of notifications of one tenant refer to. */
export interface SharedContent extends ContentRef, Payload {
  readonly tenant: string
}

/** The same on its way to the record: without an id as long as it is not there. */
export type DraftedContent = Payload & Pick<ContentRef, 'bytes'> & Partial<Pick<ContentRef, 'id'>>

/** A payload of a single notification above this size is kept apart too, so that queues and lists stay small. */
export const inlineMaxBytes = 4_096

/** The size as JSON. */
export function bytesOf({ content, data }: Payload): number {
  const sizeOf = (value: Content | JsonObject | undefined): number =>
    value === undefined ? 0 : (encodings.get(value)?.bytes ?? Buffer.byteLength(JSON.stringify(value)))
  return sizeOf(content) + sizeOf(data)
}

/**
 * What was computed of a large content or data where its request was parsed, in another thread, so that nobody who has
 * the event loop has to read all of it again.
 */
export interface Encoding {
  /** Its size as JSON. */
  readonly bytes: number
  /** Its JSON in UTF-8. */
  readonly json?: Uint8Array
  /** Its part in a fingerprint. */
  readonly canonical?: string
  /** The object itself is empty and stands for `json`: only `dataOf` may look into it. */
  readonly isStandIn?: true
}

/** As long as the object lives. */
const encodings = new WeakMap<object, Encoding>()

export const encodingOf = (value: Content | JsonObject): Encoding | undefined => encodings.get(value)

export function keepEncoding(value: object, encoding: Encoding): void {
  encodings.set(value, encoding)
}

/** Its JSON: where that is at hand, in UTF-8. */
export const jsonOf = (value: Content | JsonObject): string | Uint8Array =>
  encodings.get(value)?.json ?? JSON.stringify(value)

/** Its JSON is written and stands in nobody's memory any more; the rest stays known. */
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

/** The whole payload: a notification's own data goes over the shared data. */
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
