/**
 * Selects the changes that share the next transaction. All small changes that have arrived go together; a large one
 * goes alone, one a transaction, alternating with the small ones: so a small commit waits for one large one at most,
 * however many megabytes others have sent.
 */
import type { ChangeLog } from './codec/change-log.ts'

/** The size above which a change log goes alone: writing it takes longer than the fsync of all the others. */
export const largeBytes = 2 ** 16

export interface Bounds {
  /** Changes in one transaction, at most: 5 to 20 ms of work. @defaultValue 1_000 */
  readonly changesMax?: number
  /** Bytes of them, as soon as there is more than one change log. @defaultValue 1 MiB */
  readonly bytesMax?: number
}

/** A change log with its sender. */
export interface Write {
  readonly id: number
  readonly changeLog: ChangeLog
}

export class WriteQueue {
  readonly #bounds: Required<Bounds>
  #small: Write[] = []
  #large: Write[] = []
  #wasSmall = false

  constructor({ changesMax = 1_000, bytesMax = 2 ** 20 }: Bounds = {}) {
    this.#bounds = { changesMax, bytesMax }
  }

  get isEmpty(): boolean {
    return this.#small.length === 0 && this.#large.length === 0
  }

  put(write: Write): void {
    ;(write.changeLog.bytes > largeBytes ? this.#large : this.#small).push(write)
  }

  /** The writes of the next transaction; none where nothing waits. */
  take(): readonly Write[] {
    const isLarge = this.#large.length > 0 && (this.#wasSmall || this.#small.length === 0)
    this.#wasSmall = !isLarge
    return isLarge ? [this.#large.shift()!] : this.#takeSmall()
  }

  #takeSmall(): readonly Write[] {
    let changes = 0
    let bytes = 0
    let count = 0
    for (const { changeLog } of this.#small) {
      changes += changeLog.changes.length
      bytes += changeLog.bytes
      if (count > 0 && (changes > this.#bounds.changesMax || bytes > this.#bounds.bytesMax)) break
      count += 1
    }
    return this.#small.splice(0, count)
  }
}
