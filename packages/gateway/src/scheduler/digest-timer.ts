/**
 * Closes digests whose window has ended. Digests due at the same instant are closed together, so that they share
 * commits. Closing throws only when nothing can be written; then all are tried again.
 */
import type { Digest } from '../model.ts'
import type { Clock, Store } from '../ports.ts'
import { retryMs } from './due-poller.ts'

export interface DigestTimerOptions {
  readonly store: Pick<Store, 'dueDigests' | 'nextDigestAt'>
  readonly clock: Pick<Clock, 'now'>
  readonly close: (digest: Digest) => Promise<void>
}

/** Digests read at once. */
const pageMax = 500
/** Digests closed at once: enough to share commits, few enough for their content, one or two MiB each. */
const closingMax = 50

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
    const { store, clock, close } = this.#options
    this.#isClosing = true
    // Digests noted from here on may have been stored behind the read position.
    this.#at = Number.POSITIVE_INFINITY
    try {
      for (;;) {
        const due = await store.dueDigests(clock.now(), pageMax)
        await each(due, close)
        if (due.length < pageMax) break
      }
      const next = await store.nextDigestAt()
      this.#at = Math.min(this.#at, next ?? Number.POSITIVE_INFINITY)
    } catch (error) {
      this.#at = clock.now() + retryMs
      throw error
    } finally {
      this.#isClosing = false
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
