/** Knows which versions of notifications a change under way replaces, and tells readers of the record what has moved. */
import { type Move, type Notification, revisionOf } from '../model.ts'

export class ConcurrentMoves {
  /** Revisions that a change under way replaces, by id; one revision as often as there are such changes. */
  readonly #replacing = new Map<string, number[]>()
  /** Ids whose record is being read, and the readers that a move of theirs concerns. */
  readonly #readers = new Map<string, Set<{ hasMoved: boolean }>>()

  begin(moves: readonly Move[]): void {
    for (const { before } of moves) {
      const revisions = this.#replacing.get(before.id)
      if (revisions === undefined) this.#replacing.set(before.id, [revisionOf(before)])
      else revisions.push(revisionOf(before))
    }
  }

  end(moves: readonly Move[]): void {
    for (const { before } of moves) {
      const revisions = this.#replacing.get(before.id)!
      if (revisions.length === 1) this.#replacing.delete(before.id)
      else revisions.splice(revisions.indexOf(revisionOf(before)), 1)
    }
  }

  /** Tests if a change under way replaces this version. */
  replaces(notification: Notification): boolean {
    const revisions = this.#replacing.get(notification.id)
    return revisions?.includes(revisionOf(notification)) === true
  }

  /** Tells the readers of a record that it has moved. */
  moved(id: string): void {
    if (this.#readers.size === 0) return
    for (const reader of this.#readers.get(id) ?? []) reader.hasMoved = true
  }

  /** Watches a record that is being read; the returned function ends it, and tells if the record has moved meanwhile. */
  watch(id: string): () => boolean {
    const reader = { hasMoved: false }
    const others = this.#readers.get(id)
    if (others === undefined) this.#readers.set(id, new Set([reader]))
    else others.add(reader)
    return () => {
      const all = this.#readers.get(id)
      if (all?.delete(reader) === true && all.size === 0) this.#readers.delete(id)
      return reader.hasMoved
    }
  }
}
