/**
 * Where the content of new notifications is to be kept (content.ts): that of a batch apart and once for all of it, that
 * of a single one with it, or apart where it is large.
 */
import {
  bytesOf,
  type ContentRef,
  type DraftedContent,
  inlineMaxBytes,
  type SharedContent,
} from '../content.ts'
import type { Notification } from '../model.ts'

export interface Stored {
  readonly notification: Notification
  /** To be written with it; absent where it carries its content itself, or where that is on record already. */
  readonly content?: SharedContent
}

/** A notification with its content as it was drafted. */
export type Unstored = Omit<Notification, 'shared' | 'bytes'> & { readonly shared?: DraftedContent }

/** Answers for the notifications of one request, one after the other. */
export function createContentSplitter(newId: () => string): (unstored: Unstored) => Stored {
  let last:
    | { readonly drafted: DraftedContent; readonly content: SharedContent; readonly ref: ContentRef }
    | undefined

  function ofBatch(tenant: string, drafted: DraftedContent): NonNullable<typeof last> {
    if (last?.drafted === drafted) return last
    const content: SharedContent = { ...drafted, id: drafted.id ?? newId(), tenant }
    last = { drafted, content, ref: { id: content.id, bytes: content.bytes } }
    return last
  }

  return (unstored) => {
    const drafted = unstored.shared
    if (drafted === undefined) return storedContent(unstored as Notification)
    const { content, ref } = ofBatch(unstored.tenant, drafted)
    const notification: Notification = { ...unstored, shared: ref, ...sizeOf(unstored) }
    return drafted.id === undefined ? { notification, content } : { notification }
  }
}

/** The same for a notification of its own; large content has the id of the notification. */
export function storedContent(notification: Notification): Stored {
  const size = sizeOf(notification)
  if (size === undefined) return { notification }
  const { bytes } = size
  // Nobody has seen it yet, and a copy of all fields is 1 µs a message.
  if (bytes <= inlineMaxBytes) return { notification: Object.assign(notification, size) }
  const { content, data, ...rest } = notification
  const { id, tenant } = notification
  return {
    notification: { ...rest, shared: { id, bytes } },
    content: {
      id,
      tenant,
      bytes,
      ...(content === undefined ? {} : { content }),
      ...(data === undefined ? {} : { data }),
    },
  }
}

function sizeOf(own: Pick<Notification, 'content' | 'data'>): { readonly bytes: number } | undefined {
  return own.content === undefined && own.data === undefined ? undefined : { bytes: bytesOf(own) }
}
