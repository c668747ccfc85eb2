/** Knows which versions of notifications a change under way replaces, and tells readers of the record what has moved. */
import { type Move, type Notification, revisionOf } from '../model.ts'

export class ConcurrentMoves {
  /** Versions that a change under way replaces, and by how many. As many as there are moves under way. */
  readonly #replacing = new Map<string, number>()
  /** Ids whose record is being read, and the readers that a move of theirs concerns. */
  readonly #readers = new Map<string, Set<{ hasMoved: boolean }>>()

  begin(moves: readonly Move[]): void {
    this.#replace(moves, 1)
  }

  end(moves: readonly Move[]): void {
    this.#replace(moves, -1)
  }

  /** Tests if a change under way replaces this version. */
  replaces(notification: Notification): boolean {
    return this.#replacing.size > 0 && this.#replacing.has(versionOf(notification))
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

  #replace(moves: readonly Move[], by: 1 | -1): void {
    for (const { before } of moves) {
      const version = versionOf(before)
      const count = (this.#replacing.get(version) ?? 0) + by
      if (count === 0) this.#replacing.delete(version)
      else this.#replacing.set(version, count)
    }
  }
}

const versionOf = (of: Notification): string => `${of.id} ${revisionOf(of)}`
