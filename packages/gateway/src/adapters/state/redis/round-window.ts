/**
 * Bounds the questions that one process has sent to a server and that are not answered. A server works one question after
 * the other: were all questions of a busy process sent at once, the last ones would be late by their number, and the
 * server would count as away while it answers. So the bound halves where a round took a large part of a question's
 * deadline, and grows with each round that was quick (additive increase, multiplicative decrease).
 */

const sizeMin = 16
const sizeMax = 256
/** The part of the deadline that a round may take before fewer questions are sent. */
const partMax = 0.3

export class RoundWindow {
  readonly #slowMs: number
  #size = 64

  constructor(deadlineMs: number) {
    this.#slowMs = deadlineMs * partMax
  }

  get size(): number {
    return this.#size
  }

  /** Hears of a round of so many questions that was answered after so long, ms. */
  answered(count: number, tookMs: number): void {
    this.#size =
      tookMs > this.#slowMs ? Math.max(sizeMin, this.#size >> 1) : Math.min(sizeMax, this.#size + count)
  }
}
