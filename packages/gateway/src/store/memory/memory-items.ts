/** What digests collect, by digest, each item with its place in the order in which they joined. */
import type { Notification } from '../../model.ts'
import type { Page } from '../../ports.ts'

interface Collected {
  readonly item: Notification
  readonly place: number
}

export class MemoryItems {
  readonly #digests = new Map<string, Map<string, Collected>>()
  #places = 0

  /** Those that collect something, in the order of their ids. */
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

  /** The cursor is the place of the last item of the page before. */
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
