/**
 * Counts events in the time just passed at the cost of an addition: time is cut into slices, and an expired slice
 * leaves the sum as a whole. It suits shares and averages; rate.ts counts exactly in every window.
 */
export class SlicedCount {
  readonly #sliceMs: number
  readonly #counts: Float64Array
  /** Number of the slice that is being filled. */
  #newest = Number.NEGATIVE_INFINITY
  #sum = 0
  #since: number | undefined

  constructor(windowMs: number, slices: number) {
    this.#sliceMs = windowMs / slices
    this.#counts = new Float64Array(slices)
  }

  add(now: number, by = 1): void {
    this.#roll(now)
    this.#since ??= now
    this.#counts[this.#newest % this.#counts.length]! += by
    this.#sum += by
  }

  /** Sums the last slices, including the one that is being filled. */
  sum(now: number): number {
    this.#roll(now)
    return this.#sum
  }

  /** Returns the time that it has counted, at most a window; 0 before the first event. */
  coveredMs(now: number): number {
    if (this.#since === undefined) return 0
    const whole = (this.#counts.length - 1) * this.#sliceMs + (now % this.#sliceMs)
    return Math.min(whole, now - this.#since)
  }

  clear(): void {
    this.#counts.fill(0)
    this.#sum = 0
  }

  #roll(now: number): void {
    const slice = Math.floor(now / this.#sliceMs)
    if (slice <= this.#newest) return
    const { length } = this.#counts
    if (slice - this.#newest >= length) this.clear()
    else {
      for (let next = this.#newest + 1; next <= slice; next += 1) {
        this.#sum -= this.#counts[next % length]!
        this.#counts[next % length] = 0
      }
    }
    this.#newest = slice
  }
}
