/** Open digests of the in-memory store, with the order in which they close. */
import { Heap } from '../../heap.ts'
import type { Digest } from '../../model.ts'
import { type Group, groupKey } from './memory-keys.ts'

export class MemoryDigests {
  readonly #open = new Map<string, Digest>()
  readonly #closing = new Heap<Digest>()

  /** Writes a digest. A join moves the closing time forward only. */
  write(kind: 'open' | 'join' | 'postpone' | 'close', digest: Digest): void {
    const key = groupKey(digest)
    const open = this.#open.get(key)
    if (kind === 'close') {
      this.#open.delete(key)
    } else if (kind === 'postpone' || open === undefined || digest.closesAt < open.closesAt) {
      const { heldAs: given, ...own } = digest
      const heldAs = kind === 'postpone' ? given : open?.heldAs
      const written = heldAs === undefined ? own : { ...own, heldAs }
      this.#open.set(key, written)
      this.#closing.push(written.closesAt, written)
    }
  }

  /** Finds the open digest of a group. */
  of(group: Group): Digest | undefined {
    return this.#open.get(groupKey(group))
  }

  byId(id: string): Digest | undefined {
    return this.all().find((digest) => digest.id === id)
  }

  all(): readonly Digest[] {
    return [...this.#open.values()]
  }

  due(until: number, limit: number): readonly Digest[] {
    const due: Digest[] = []
    while (due.length < limit && this.#closing.leastKey !== undefined && this.#closing.leastKey <= until) {
      const digest = this.#closing.pop()!
      if (this.of(digest) === digest) due.push(digest)
    }
    for (const digest of due) this.#closing.push(digest.closesAt, digest)
    return due
  }

  /** The earliest instant at which one closes. */
  earliest(): number | undefined {
    while (this.#closing.least !== undefined && this.of(this.#closing.least) !== this.#closing.least)
      this.#closing.pop()
    return this.#closing.leastKey
  }
}
