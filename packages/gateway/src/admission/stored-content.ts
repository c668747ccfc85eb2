/**
 * Decides where the content of new notifications is stored (content.ts): content of a batch once in a record of its own,
 * content of a single notification inside it, or in a record of its own where it is large.
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
  /** Content to be written with it; absent where the notification carries its content, or it is stored already. */
  readonly content?: SharedContent
}

/** A notification with the content of its draft. */
export type Unstored = Omit<Notification, 'shared' | 'bytes'> & { readonly shared?: DraftedContent }

/** Returns a function that splits the notifications of one request, one after the other. */
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

/** Splits a single notification; large content gets the id of the notification. */
export function storedContent(notification: Notification): Stored {
  const size = sizeOf(notification)
  if (size === undefined) return { notification }
  const { bytes } = size
  // Changed in place, since no other code has the object yet: a copy of all fields costs 1 µs a message.
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
