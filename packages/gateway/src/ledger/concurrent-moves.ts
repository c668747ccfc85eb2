/** Knows which versions of notifications a change under way replaces, and tells readers of the record what has moved. */
import { type Move, type Notification, revisionOf } from '../model.ts'

const none: readonly never[] = []

/** A change from its call until its outcome is known. */
export interface ChangeUnderWay {
  readonly moves: readonly Move[]
  /** The answer of the store is lost, and the change is being looked up. */
  isLost: boolean
  /** Ids of which another change of this process, which is on record, has replaced the version that this one replaces. */
  readonly overtaken: string[]
}

export class ConcurrentMoves {
  /** Revisions that a change under way replaces, by id; one revision as often as there are such changes. */
  readonly #replacing = new Map<string, { readonly revision: number; readonly change: ChangeUnderWay }[]>()
  /** Ids whose record is being read, and the readers that a move of theirs concerns. */
  readonly #readers = new Map<string, Set<{ hasMoved: boolean }>>()

  /** Written versions that a claim or the own sweep had brought on their way before their commit was answered. */
  readonly #takenUp = new WeakSet<Notification>()

  begin(moves: readonly Move[]): ChangeUnderWay {
    const change: ChangeUnderWay = { moves, isLost: false, overtaken: [] }
    for (const { before } of moves) {
      const replacement = { revision: revisionOf(before), change }
      const others = this.#replacing.get(before.id)
      if (others === undefined) this.#replacing.set(before.id, [replacement])
      else others.push(replacement)
    }
    return change
  }

  end(change: ChangeUnderWay): void {
    for (const { before } of change.moves) {
      const all = this.#replacing.get(before.id)!
      const index = all.findIndex((each) => each.change === change)
      if (all.length === 1) this.#replacing.delete(before.id)
      else all.splice(index, 1)
    }
  }

  /** Tests if a change under way replaces this version. */
  replaces(notification: Notification): boolean {
    return this.#changesOf(notification).length > 0
  }

  /** Tests if this process holds what a change has written, or a later version: its writer must not bring it once more. */
  takesUp(written: Notification, held: Notification | undefined): boolean {
    if (held === undefined || revisionOf(held) < revisionOf(written)) return false
    if (held !== written) this.#takenUp.add(written)
    return true
  }

  isTakenUp(written: Notification): boolean {
    return this.#takenUp.has(written)
  }

  /** Tests if the store has yet to answer another change that replaces a version that this one replaces. */
  isContested(change: ChangeUnderWay): boolean {
    return change.moves.some(({ before }) =>
      this.#changesOf(before).some((other) => other !== change && !other.isLost),
    )
  }

  /** The changes under way that replace this version. */
  #changesOf(version: Notification): readonly ChangeUnderWay[] {
    const all = this.#replacing.get(version.id)
    if (all === undefined) return none
    const revision = revisionOf(version)
    return all.filter((each) => each.revision === revision).map((each) => each.change)
  }

  /** Tells the readers of a record, and the other changes that replace this version, that it has moved. */
  moved(before: Notification): void {
    for (const other of this.#changesOf(before)) other.overtaken.push(before.id)
    if (this.#readers.size === 0) return
    for (const reader of this.#readers.get(before.id) ?? []) reader.hasMoved = true
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
