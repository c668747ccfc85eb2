/**
 * Spreads the calls of a full window (pacing). In a rolling window places become free as they were taken: a burst
 * that fills one returns a window later, and other tenants wait for it, whoever's turn it is. So while several
 * tenants share an account whose window is full, its calls keep a distance by which the next window is full just at
 * its end. Then a place becomes free all the time, and fair turns are short. Pure.
 */
import type { Window } from '@sluice/limits'

/** Factor on the even distance: slightly shorter, so that pacing costs nothing of the rate. */
const haste = 0.97
/** Time that delayed calls may catch up, ms: timers are no finer. */
const catchUpMs = 2

export class Pacing {
  readonly #distanceMs: number
  readonly #windowMs: number
  #nextAt = Number.NEGATIVE_INFINITY
  #until = Number.NEGATIVE_INFINITY

  constructor({ max, windowMs }: Window, marginMs: number) {
    this.#windowMs = windowMs + marginMs
    this.#distanceMs = (this.#windowMs / max) * haste
  }

  /** Starts pacing: the window is full until this instant, and calls in the next window keep their distance. */
  full(freeAt: number): void {
    this.#until = freeAt + this.#windowMs
  }

  took(now: number): void {
    this.#nextAt = Math.max(this.#nextAt, now - catchUpMs) + this.#distanceMs
  }

  /** Returns the earliest instant ≥ now, in whole milliseconds, each of which may have several calls. */
  freeAt(now: number): number {
    return now < this.#until ? Math.max(now, Math.floor(this.#nextAt)) : now
  }
}
