/**
 * Closes digests whose window has ended. Digests due at the same instant are closed together, so that they share
 * commits. Closing throws only when nothing can be written; then all are tried again. Of several processes one closes
 * the digests of all, which it looks for in the store. During a rolling deployment it may not have one of them in its policy,
 * and would send the items one by one: it leaves that to the others, each of which closes what is late and in its policy.
 */
import type { Digest } from '../model.ts'
import type { Members } from '../ports/fleet.ts'
import type { Clock, Store } from '../ports.ts'
import { retryMs } from './due-poller.ts'

/** By this a process knows which digests it closes. */
export interface DigestChoice {
  readonly members: Pick<Members, 'holds' | 'count'>
  /** Returns the names of the digests in the policy in force. @defaultValue none */
  readonly digestNames?: (() => readonly string[]) | undefined
}

export interface DigestTimerOptions extends DigestChoice {
  readonly store: Pick<Store, 'dueDigests' | 'nextDigestAt' | 'isVersioned'>
  readonly clock: Pick<Clock, 'now'>
  readonly close: (digest: Digest) => Promise<void>
}

/** Digests read at once. */
const pageMax = 500
/** Digests closed at once: enough to share commits, few enough for their content, one or two MiB each. */
const closingMax = 50
/** Where several processes write, the store is asked this often for digests that others opened, ms. */
const lookMs = 1_000
/** A process without the role closes one of its policy that is late by this, ms. */
const lateMs = 5_000
/** The process with the role leaves one that is not in its policy to the others for so long, ms. */
const strangeMs = 30_000

export class DigestTimer {
  readonly #options: DigestTimerOptions
  #at = Number.NEGATIVE_INFINITY
  #isClosing = false

  constructor(options: DigestTimerOptions) {
    this.#options = options
  }

  /** The end of the next window; `Infinity` while digests are being closed. */
  get next(): number {
    return this.#isClosing ? Number.POSITIVE_INFINITY : this.#at
  }

  /** Records that a digest's window ends at this instant. */
  note(closesAt: number): void {
    this.#at = Math.min(this.#at, closesAt)
  }

  async closeDue(): Promise<void> {
    const { store, members, clock } = this.#options
    this.#isClosing = true
    // Digests noted from here on may have been stored behind the read position.
    this.#at = Number.POSITIVE_INFINITY
    try {
      const isForAll = members.holds('digests')
      const next = isForAll || members.count() > 1 ? await this.#closeAll(isForAll) : Number.POSITIVE_INFINITY
      this.#at = Math.min(this.#at, next, store.isVersioned ? clock.now() + lookMs : Number.POSITIVE_INFINITY)
    } catch (error) {
      this.#at = clock.now() + retryMs
      throw error
    } finally {
      this.#isClosing = false
    }
  }

  /** Returns those of the digests, which are due, that this process closes. */
  #ownOf(due: readonly Digest[], now: number, isForAll: boolean): readonly Digest[] {
    const { members, digestNames } = this.#options
    const names = new Set(digestNames?.())
    const knownMs = isForAll ? 0 : lateMs
    const othersMs = isForAll ? (members.count() === 1 ? 0 : strangeMs) : Number.POSITIVE_INFINITY
    const own = due.filter(({ name, closesAt }) => closesAt <= now - (names.has(name) ? knownMs : othersMs))
    // Where there are so many that the other process is late, both do not close the same ones.
    return isForAll ? own : own.reverse()
  }

  /** Closes the digests of this process that are due; returns the end of the next window. */
  async #closeAll(isForAll: boolean): Promise<number> {
    const { store, clock, close } = this.#options
    let first: string | undefined
    for (;;) {
      const until = clock.now()
      const due = await store.dueDigests(until, pageMax)
      // One that is still open is another process's, or was refused: others write it, or have declared this one dead.
      if (first !== undefined && due[0]?.id === first) return clock.now() + retryMs
      await each(this.#ownOf(due, until, isForAll), close)
      first = due[0]?.id
      if (due.length === pageMax) continue
      const next = (await store.nextDigestAt()) ?? Number.POSITIVE_INFINITY
      return next > until ? next : clock.now() + retryMs
    }
  }
}

/** Closes all digests, at most `closingMax` at once. Throws the first error when all have ended. */
async function each(digests: readonly Digest[], close: (digest: Digest) => Promise<void>): Promise<void> {
  const left = digests.values()
  const work = async (): Promise<void> => {
    for (const digest of left) await close(digest)
  }
  const ends = await Promise.allSettled(Array.from({ length: closingMax }, work))
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}
