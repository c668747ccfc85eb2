/** Closes digests whose window has ended. Those of one instant are closed together, so that their commits are shared. */
import type { Digest } from '../model.ts'
import type { Clock, Store } from '../ports.ts'
import { againMs } from './claims.ts'

export interface ClosingsOptions {
  readonly store: Pick<Store, 'dueDigests' | 'nextDigestAt'>
  readonly clock: Pick<Clock, 'now'>
  readonly close: (digest: Digest) => Promise<void>
}

/** Digests read at once. */
const pageMax = 500

export class Closings {
  readonly #options: ClosingsOptions
  #at = Number.NEGATIVE_INFINITY
  #isClosing = false

  constructor(options: ClosingsOptions) {
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
        await Promise.all(due.map(close))
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
