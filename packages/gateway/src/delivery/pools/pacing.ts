/**
 * Spreads the places of a full window. In a rolling window places come free as they were taken: who fills one with a
 * burst has the burst come back a window later, and whoever else comes meanwhile waits for it, whoever's turn it is.
 * So while several tenants share an account whose window was found full, its calls keep a distance by which the next
 * window is full just at its end; then a place comes free all the time, and fair turns are short turns. Pure.
 */
import type { Window } from '@sluice/limits'

/** The distance is a little shorter than even, so that pacing costs nothing of the rate. */
const haste = 0.97
/** Calls that were held up may catch up by this: timers are no finer. */
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

  /** The window has no place until then: in the window that begins there, calls keep their distance. */
  full(freeAt: number): void {
    this.#until = freeAt + this.#windowMs
  }

  took(now: number): void {
    this.#nextAt = Math.max(this.#nextAt, now - catchUpMs) + this.#distanceMs
  }

  /** The earliest instant ≥ now; whole milliseconds, of which each may have several calls. */
  freeAt(now: number): number {
    return now < this.#until ? Math.max(now, Math.floor(this.#nextAt)) : now
  }
}
