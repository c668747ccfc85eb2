/**
 * Estimates how long calls of an account are on their way to the provider. A call is written at a known instant, but
 * its arrival is not observed: a busy machine, a new connection or code that runs for the first time delays it by far
 * more than the margin of a window. It has arrived when it is answered. So time beyond the usual counts as time on
 * the way, and the call counts as much later in the rate. Before a usual time is known all of it counts, so an
 * account starts gently. Pure.
 */

/** Answers in a block. The usual time is the lower one of the last two blocks: it falls quickly and rises slowly. */
const block = 16
/** Quantile of a block that is the usual time: the provider's own time varies, and must cost no places. */
const usualShare = 0.75
/** Maximum delay counted, ms: a call that hangs must not keep its place for all of its time. */
const heldUpMsMax = 2_000

export class Way {
  readonly #slackMs: number
  readonly #taken = new Float64Array(block)
  #count = 0
  #before: number | undefined
  #usualMs = 0

  /** @param slackMs tolerance above the usual time */
  constructor(slackMs: number) {
    this.#slackMs = slackMs
  }

  /** Records the time between writing and answer. */
  sample(tookMs: number): void {
    this.#taken[this.#count] = tookMs
    this.#count += 1
    if (this.#count < block) return
    this.#count = 0
    const usual = this.#taken.sort()[Math.floor(block * usualShare)]!
    this.#usualMs = Math.min(usual, this.#before ?? usual)
    this.#before = usual
  }

  /** Returns the instant by which a call has arrived that was written and answered at these instants. */
  arrivedBy(leftAt: number, answeredAt: number): number {
    const heldUpMs = answeredAt - leftAt - this.#usualMs - this.#slackMs
    return leftAt + Math.min(Math.max(0, heldUpMs), heldUpMsMax)
  }

  /** Tests if waiting longer for the answer changes nothing. */
  isOver(leftAt: number, now: number): boolean {
    return now - leftAt - this.#usualMs - this.#slackMs >= heldUpMsMax
  }
}
