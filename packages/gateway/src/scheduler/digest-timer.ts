/**
 * Closes digests whose window has ended. Those of one instant are closed together, so that their commits are shared. A
 * closing throws only where nothing can be written; then all are tried again.
 */
import type { Digest } from '../model.ts'
import type { Clock, Store } from '../ports.ts'
import { againMs } from './due-poller.ts'

export interface DigestTimerOptions {
  readonly store: Pick<Store, 'dueDigests' | 'nextDigestAt'>
  readonly clock: Pick<Clock, 'now'>
  readonly close: (digest: Digest) => Promise<void>
}

/** Digests read at once. */
const pageMax = 500
/** Closed at once: enough to share commits, few enough for what they say, a mebibyte or two each. */
const closingMax = 50

export class DigestTimer {
  readonly #options: DigestTimerOptions
  #at = Number.NEGATIVE_INFINITY
  #isClosing = false

  constructor(options: DigestTimerOptions) {
    this.#options = options
  }

  /** When the next window ends; `Infinity` while those are closed whose window has ended. */
  get next(): number {
    return this.#isClosing ? Number.POSITIVE_INFINITY : this.#at
  }

  /** The window of a digest ends then. */
  note(closesAt: number): void {
    this.#at = Math.min(this.#at, closesAt)
  }

  async closeDue(): Promise<void> {
    const { store, clock, close } = this.#options
    this.#isClosing = true
    // What is noted from here on may be on record behind what is read.
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
      this.#at = clock.now() + againMs
      throw error
    } finally {
      this.#isClosing = false
    }
  }
}

/** All of them, so many at once; throws the first error when all have ended. */
async function each(digests: readonly Digest[], close: (digest: Digest) => Promise<void>): Promise<void> {
  const left = digests.values()
  const work = async (): Promise<void> => {
    for (const digest of left) await close(digest)
  }
  const ends = await Promise.allSettled(Array.from({ length: closingMax }, work))
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}
