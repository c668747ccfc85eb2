/**
 * What an account is believed to be allowed, as a share of its configured rate: a 429 multiplies it down, time adds it
 * up again (AIMD: Chiu and Jain, 1989). So an account whose true limit lies below the configured one is not driven
 * into its wall again and again. Pure.
 */
export interface LearnedRatePolicy {
  /** What a 429 leaves of it. @defaultValue 0.8 */
  readonly fall: number
  /** What comes back in a second, as a share of the configured rate. @defaultValue 0.01 */
  readonly risePerSecond: number
}

export const defaultLearnedRatePolicy: LearnedRatePolicy = { fall: 0.8, risePerSecond: 0.01 }
/** Below this nothing would be learnt any more. */
const least = 0.01

export class LearnedRate {
  readonly #policy: LearnedRatePolicy
  #share = 1
  /** From when on it rises. */
  #since = 0

  constructor(policy: LearnedRatePolicy = defaultLearnedRatePolicy) {
    this.#policy = policy
  }

  /** In (0, 1]. */
  share(now: number): number {
    if (this.#share === 1) return 1
    const risen = (Math.max(0, now - this.#since) / 1_000) * this.#policy.risePerSecond
    if (this.#share + risen < 1) return this.#share + risen
    this.#share = 1
    return 1
  }

  /** A 429 came; it rises again when the block that came with it is over. */
  fall(now: number, blockedUntil: number): void {
    this.#share = Math.max(least, this.share(now) * this.#policy.fall)
    this.#since = blockedUntil
  }
}
