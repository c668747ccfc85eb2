/**
 * How much of somebody's input is read: so many frames a second, with a second's worth at once. What is above is not
 * refused but read later. One number holds it all: the instant at which everything spent so far is paid for.
 */
export class Budget {
  readonly #frameMs: number
  #paidAt = 0

  constructor(framesPerSecond: number) {
    this.#frameMs = 1_000 / framesPerSecond
  }

  /** Spends one; answers for how long nothing more is to be read, ms. */
  spend(now: number): number {
    this.#paidAt = Math.max(this.#paidAt, now) + this.#frameMs
    return Math.max(0, this.#paidAt - now - 1_000)
  }
}
