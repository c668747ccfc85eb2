/**
 * A read budget: so many frames per second, with a second's worth as burst. Frames above it are not refused but
 * read later. One number holds the state: the instant at which all spent frames are paid for.
 */
export class Budget {
  readonly #frameMs: number
  #paidAt = 0

  constructor(framesPerSecond: number) {
    this.#frameMs = 1_000 / framesPerSecond
  }

  /** Spends one frame; returns for how long reading pauses, ms. */
  spend(now: number): number {
    this.#paidAt = Math.max(this.#paidAt, now) + this.#frameMs
    return Math.max(0, this.#paidAt - now - 1_000)
  }
}
