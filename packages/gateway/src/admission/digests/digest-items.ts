/**
 * Reads the items of a digest with bounded memory: a page at a time, with the content of the first items up to 1 MiB.
 * The content of the other items is read again where it is rendered.
 */

import type { Digest, Notification } from '../../model.ts'
import type { Clock, Page, Store } from '../../ports.ts'
import type { Contents } from '../../stages.ts'
import { shownBytesMax, shownBytesOf } from './digest-notification.ts'

export interface DigestItemsOptions {
  readonly store: Pick<Store, 'digestItems' | 'notification'>
  readonly contents: Pick<Contents, 'of'>
  readonly clock: Pick<Clock, 'soon'>
}

export interface Gathered {
  readonly items: readonly Notification[]
  /** True where the digest has further items. */
  readonly more: boolean
}

export interface DigestItems {
  /** Reads at most `max` items of the digest, in the order of acceptance. */
  gather(digest: Digest, max: number): Promise<Gathered>
  /** Returns the first items with their own content: at least one, at most `max`, and at most 1 MiB. */
  withText(items: readonly Notification[], max: number): Promise<readonly Notification[]>
  /** Returns the same with content from records of its own, too, as a digest renders them. */
  shown(items: readonly Notification[], max: number): Promise<readonly Notification[]>
}

/** Rows read at once, some 5 ms of the event loop. */
const pageMax = 250

export function createDigestItems({ store, contents, clock }: DigestItemsOptions): DigestItems {
  /** Items that are kept without their content. */
  const bare = new WeakSet<Notification>()

  function withoutText({ content, data, ...rest }: Notification): Notification {
    bare.add(rest)
    return rest
  }

  async function whole(item: Notification): Promise<Notification> {
    if (!bare.has(item)) return item
    const recorded = await store.notification(item.tenant, item.id)
    if (recorded === undefined) throw new Error(`item ${item.id} is not on record`)
    const { content, data } = recorded
    return { ...item, ...(content === undefined ? {} : { content }), ...(data === undefined ? {} : { data }) }
  }

  async function withContent(item: Notification): Promise<Notification> {
    const own = await whole(item)
    return { ...own, ...(await contents.of(own)) }
  }

  /** Takes as many items as fit into 1 MiB; an item that is too large by itself is not even read. */
  async function first(
    items: readonly Notification[],
    read: (item: Notification) => Promise<Notification>,
    bytesAtLeast = (_item: Notification): number => 0,
  ): Promise<readonly Notification[]> {
    const taken: Notification[] = []
    let bytes = 0
    for (const item of items) {
      const isFirst = taken.length === 0
      if (!isFirst && bytes + bytesAtLeast(item) > shownBytesMax) break
      const each = await read(item)
      bytes += shownBytesOf(each)
      if (!isFirst && bytes > shownBytesMax) break
      taken.push(each)
    }
    return taken
  }

  return {
    async gather(digest, max) {
      const items: Notification[] = []
      let bytes = 0
      let cursor: string | null = null
      do {
        const limit = Math.min(pageMax, max - items.length)
        const page: Page<Notification> = await store.digestItems(digest, cursor, limit)
        for (const item of page.items) {
          if (bytes <= shownBytesMax) bytes += shownBytesOf(item)
          items.push(bytes <= shownBytesMax || items.length === 0 ? item : withoutText(item))
        }
        cursor = page.nextCursor
        // Yields to the event loop between two pages.
        if (cursor !== null) await new Promise<void>((resolve) => clock.soon(resolve))
      } while (cursor !== null && items.length < max)
      return { items, more: cursor !== null }
    },

    withText: (items, max) => first(items.slice(0, max), whole),
    shown: (items, max) => first(items.slice(0, max), withContent, (item) => item.shared?.bytes ?? 0),
  }
}
