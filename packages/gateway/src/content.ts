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
  const sizeOf = (value: object | undefined): number =>
    value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value))
  return sizeOf(content) + sizeOf(data)
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
