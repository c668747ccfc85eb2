/**
 * Decides in which slots an account is asked for: in each one at first, and ever more rarely while it has no free place.
 * A place is found late by at most a fiftieth of the time for which there was none, and by four slots at most. All accounts and
 * processes leave out the same slots, so the accounts of a pool still share their questions.
 */
import type { SlotGrant } from '../../ports/account-slots.ts'

/** The most slots from one question to the next. */
const slotsMax = 5
/** While answers bring no token, one slot more is left out between two questions each time that so much has passed, ms. */
const stepMs = 1_000

export class AskPause {
  readonly #slotMs: number
  /** No question for tokens before this instant. */
  #until = 0
  /** The instant of the first of the answers without a token, one after the other. */
  #lackedSince: number | undefined

  /** @param slotMs the width of a slot */
  constructor(slotMs: number) {
    this.#slotMs = slotMs
  }

  get until(): number {
    return this.#until
  }

  /**
   * Begins the pause that an answer asks for.
   * @param kept the share of the places that the question left to critical notifications: these may still have one
   * @param endsAt the end of the slot
   */
  heard(now: number, { tokens, shortage }: SlotGrant, kept: number, slot: number, endsAt: number): void {
    // Nothing was wanted meanwhile, and nobody knows if there was a place.
    if (now - this.#until > stepMs) this.#lackedSince = undefined
    // A call of another process may end at any instant, and gives its place back.
    if (tokens > 0 || kept > 0 || shortage === 'concurrency') this.#lackedSince = undefined
    else this.#lackedSince ??= now
    this.#until = 0
    if (shortage === 'none' || shortage === 'share') return
    const every = Math.min(slotsMax, 1 + Math.floor((now - (this.#lackedSince ?? now)) / stepMs))
    this.#until = endsAt + (every - 1 - (slot % every)) * this.#slotMs
  }

  /** Ends the pause: a place may have become free, or the account is known anew. */
  end(): void {
    this.#until = 0
    this.#lackedSince = undefined
  }
}
