/**
 * How long the calls of an account are on their way. A call leaves at a known instant, but nobody says when it arrives:
 * a busy machine, a connection that is new or code that runs for the first time hold it up after it has left, by far more
 * than the margin of a window. It has arrived when it is answered; so what takes longer than usual until then is taken
 * to have been on its way as much longer, and counts as much later. While nothing is usual yet, all of it counts, and an
 * account begins gently. Pure.
 */

/** Answers by which the usual is known; it is the lower one of the last two such blocks: quickly down, slowly up. */
const block = 16
/** Of the answers of a block so many are quicker: what a provider itself takes varies, and must cost no places. */
const usualShare = 0.75
/** A call that is held up longer counts no later: one that hangs must not keep its place for all of its time. */
const heldUpMsMax = 2_000

export class Way {
  readonly #slackMs: number
  readonly #taken = new Float64Array(block)
  #count = 0
  #before: number | undefined
  #usualMs = 0

  /** @param slackMs longer than usual by this is as usual */
  constructor(slackMs: number) {
    this.#slackMs = slackMs
  }

  /** A call was answered so long after it had left. */
  sample(tookMs: number): void {
    this.#taken[this.#count] = tookMs
    this.#count += 1
    if (this.#count < block) return
    this.#count = 0
    const usual = this.#taken.sort()[Math.floor(block * usualShare)]!
    this.#usualMs = Math.min(usual, this.#before ?? usual)
    this.#before = usual
  }

  /** By when a call has arrived that left at one instant, and was not answered before another. */
  arrivedBy(leftAt: number, answeredAt: number): number {
    const heldUpMs = answeredAt - leftAt - this.#usualMs - this.#slackMs
    return leftAt + Math.min(Math.max(0, heldUpMs), heldUpMsMax)
  }

  /** Whether waiting for its answer changes nothing any more. */
  isOver(leftAt: number, now: number): boolean {
    return now - leftAt - this.#usualMs - this.#slackMs >= heldUpMsMax
  }
}
