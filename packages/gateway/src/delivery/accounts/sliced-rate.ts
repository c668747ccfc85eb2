/**
 * One window with many places, such as `50000/h`, counted in slices. Each call counts until the end of its slice is a
 * whole window old: never too short, and at most a slice too long (0.9 s of an hour). It takes 16 kB where exact
 * instants would take 400; rate.ts counts windows with fewer places to the millisecond.
 */
import type { Window } from '@sluice/limits'

const slices = 4_096

/** Tests if slices are smaller than the instants they replace, and at least a millisecond long. */
export function isWide({ max, windowMs }: Window): boolean {
  return max > slices && windowMs >= slices
}

export class SlicedRate {
  readonly window: Window
  readonly #sliceMs: number
  /** Time that a slice counts after its end, ms. */
  readonly #keptMs: number
  readonly #size: number
  /** Allocated on first use: most of hundreds of accounts may never be used. */
  #counts: Uint32Array | undefined
  /** Number of the oldest slice that counts. */
  #oldest = 0
  #sum = 0

  constructor(window: Window, marginMs: number) {
    this.window = window
    this.#sliceMs = window.windowMs / slices
    this.#keptMs = window.windowMs + marginMs
    this.#size = Math.ceil(this.#keptMs / this.#sliceMs) + 2
  }

  /** Counts the calls in the window now. */
  used(now: number): number {
    this.#pass(now)
    return this.#sum
  }

  /** Returns the earliest instant ≥ now at which fewer than `max` count. */
  freeAt(now: number, max: number): number {
    this.#pass(now)
    if (this.#sum < max) return now
    let left = this.#sum
    let slice = this.#oldest
    for (; left >= max; slice += 1) left -= this.#counts![slice % this.#size]!
    return Math.ceil(slice * this.#sliceMs + this.#keptMs)
  }

  add(instant: number): void {
    this.#counts ??= new Uint32Array(this.#size)
    this.#pass(instant)
    const slice = Math.floor(instant / this.#sliceMs)
    if (this.#sum === 0) this.#oldest = slice
    this.#counts[Math.max(slice, this.#oldest) % this.#size]! += 1
    this.#sum += 1
  }

  /** Removes a call added at this instant, if it still counts. */
  remove(instant: number): void {
    const slice = Math.floor(instant / this.#sliceMs)
    if (this.#sum === 0 || slice < this.#oldest) return
    this.#counts![slice % this.#size]! -= 1
    this.#sum -= 1
  }

  #pass(now: number): void {
    while (this.#sum > 0 && (this.#oldest + 1) * this.#sliceMs + this.#keptMs <= now) {
      this.#sum -= this.#counts![this.#oldest % this.#size]!
      this.#counts![this.#oldest % this.#size] = 0
      this.#oldest += 1
    }
  }
}
