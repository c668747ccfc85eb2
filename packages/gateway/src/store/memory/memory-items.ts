/** Items that digests collect, by digest, each with its position in the order in which they joined. */
import type { Notification } from '../../model.ts'
import type { Page } from '../../ports.ts'

interface Collected {
  readonly item: Notification
  readonly place: number
}

export class MemoryItems {
  readonly #digests = new Map<string, Map<string, Collected>>()
  #places = 0

  /** Digests that collect at least one item, in the order of their ids. */
  digests(): readonly string[] {
    return [...this.#digests.keys()].sort()
  }

  sizeOf(digestId: string): number {
    return this.#digests.get(digestId)?.size ?? 0
  }

  put(item: Notification): void {
    const digestId = item.digestId ?? ''
    const items = this.#digests.get(digestId) ?? new Map<string, Collected>()
    this.#digests.set(digestId, items)
    const place = items.get(item.id)?.place ?? ++this.#places
    items.set(item.id, { item, place })
  }

  delete({ id, digestId = '' }: Notification): void {
    const items = this.#digests.get(digestId)
    if (items?.delete(id) === true && items.size === 0) this.#digests.delete(digestId)
  }

  /** Reads a page of items. The cursor is the position of the previous page's last item. */
  page(digestId: string, cursor: string | null, limit: number): Page<Notification> {
    const after = Number(cursor ?? 0)
    const behind = [...(this.#digests.get(digestId)?.values() ?? [])].filter(({ place }) => place > after)
    const shown = behind.slice(0, limit)
    return {
      items: shown.map(({ item }) => item),
      nextCursor: behind.length > limit ? String(shown.at(-1)!.place) : null,
    }
  }
}
