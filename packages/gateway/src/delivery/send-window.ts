/**
 * Bounds how many attempts of a channel are between their lease and their call at once. A right to send ends soon after it
 * was asked for. Were all that wait to ask together, the store and the limits would answer after the end of all rights,
 * nothing would be sent, and all would ask again. The same holds for an answer of the limits, which permits a call for a
 * few milliseconds only. So the window halves where a right or an answer was too old for its call, and grows with each
 * batch that was in time (additive increase, multiplicative decrease).
 */

/** Enough for several batches at once, which share round trips. */
const sizeMax = 512

export class SendWindow {
  #size = sizeMax
  #open = 0

  /** The number of attempts that may begin now. */
  get room(): number {
    return Math.max(0, this.#size - this.#open)
  }

  /** Counts attempts that begin. */
  begin(count: number): void {
    this.#open += count
  }

  /** Counts the attempts of a batch that were sent or released; `late` of them had a right or an answer too old to send. */
  end(count: number, late: number): void {
    this.#open -= count
    this.#size = late > 0 ? Math.max(1, this.#size >> 1) : Math.min(sizeMax, this.#size + count)
  }
}
