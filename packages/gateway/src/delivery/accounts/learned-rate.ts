/**
 * Learns the rate that an account is really allowed, as a share of its configured rate: a 429 decreases it
 * multiplicatively, time increases it additively (AIMD: Chiu and Jain, 1989). So an account whose true limit is below
 * the configured one does not hit it again and again. Pure.
 */
export interface LearnedRatePolicy {
  /** Factor applied by a 429. @defaultValue 0.8 */
  readonly fall: number
  /** Recovery per second, as a share of the configured rate. @defaultValue 0.01 */
  readonly risePerSecond: number
}

const defaultLearnedRatePolicy: LearnedRatePolicy = { fall: 0.8, risePerSecond: 0.01 }
/** Minimum share: below it no call would be made to learn from. */
const least = 0.01

export class LearnedRate {
  readonly #policy: LearnedRatePolicy
  #share = 1
  /** The instant from which it rises. */
  #since = 0

  constructor(policy: LearnedRatePolicy = defaultLearnedRatePolicy) {
    this.#policy = policy
  }

  /** Returns the share, in (0, 1]. */
  share(now: number): number {
    if (this.#share === 1) return 1
    const risen = (Math.max(0, now - this.#since) / 1_000) * this.#policy.risePerSecond
    if (this.#share + risen < 1) return this.#share + risen
    this.#share = 1
    return 1
  }

  /** Decreases the share after a 429; it rises again when the block of that 429 is over. */
  fall(now: number, blockedUntil: number): void {
    this.#share = Math.max(least, this.share(now) * this.#policy.fall)
    this.#since = blockedUntil
  }
}
