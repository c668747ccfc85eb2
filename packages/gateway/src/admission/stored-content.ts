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
import type { Mutable } from './candidate.ts'

export interface Stored {
  readonly notification: Notification
  /** Content to be written with it; absent where the notification carries its content, or it is stored already. */
  readonly content?: SharedContent
}

/**
 * Returns a function that splits the notifications of one request, one after the other; `drafted` is the content that the
 * drafts of a batch share. It changes the notification in place, since no other code has the object yet: a copy of all
 * fields costs 1 µs a message.
 */
export function createContentSplitter(
  newId: () => string,
): (notification: Mutable<Notification>, drafted: DraftedContent | undefined) => Stored {
  let last:
    | { readonly drafted: DraftedContent; readonly content: SharedContent; readonly ref: ContentRef }
    | undefined

  function ofBatch(tenant: string, drafted: DraftedContent): NonNullable<typeof last> {
    if (last?.drafted === drafted) return last
    const content: SharedContent = { ...drafted, id: drafted.id ?? newId(), tenant }
    last = { drafted, content, ref: { id: content.id, bytes: content.bytes } }
    return last
  }

  return (notification, drafted) => {
    if (drafted === undefined) return storedContent(notification)
    const { content, ref } = ofBatch(notification.tenant, drafted)
    notification.shared = ref
    if (hasContent(notification)) notification.bytes = bytesOf(notification)
    return drafted.id === undefined ? { notification, content } : { notification }
  }
}

/** Splits a single notification, in place; large content gets the id of the notification. */
export function storedContent(notification: Mutable<Notification>): Stored {
  if (!hasContent(notification)) return { notification }
  const bytes = bytesOf(notification)
  if (bytes <= inlineMaxBytes) {
    notification.bytes = bytes
    return { notification }
  }
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

const hasContent = ({ content, data }: Pick<Notification, 'content' | 'data'>): boolean =>
  content !== undefined || data !== undefined
