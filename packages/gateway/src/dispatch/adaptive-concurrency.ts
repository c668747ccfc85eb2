/**
 * How many calls at once an account bears, found from how long they take. Each second's 99th percentile is held
 * against what is usual for the account: when it has grown for two seconds on end, the limit shrinks to a share of what
 * was under way, and while it is usual, the limit grows by a step (AIMD). Providers that throttle without a word (APNs)
 * are met by this. Pure.
 */
export interface ConcurrencyPolicy {
  /** Calls at once, never fewer. @defaultValue 1 */
  readonly min: number
  /** Calls at once, never more. */
  readonly max: number
  /** How many times the usual is too slow. @defaultValue 2 */
  readonly slowdown: number
}

const periodMs = 1_000
/** A period with fewer calls goes on, up to `patienceMs`. */
const samplesMin = 10
const patienceMs = 4_000
/** Slower by less than this is no sign: the event loop's own turns are in it. */
const slackMs = 50
/** What is left of the calls under way. */
const shrink = 0.7
/** Latencies are counted in classes that grow by 9 %: eight to a doubling, up to a minute. */
const classesPerDoubling = 8
const classes = 128
/** Steps from the smallest limit to the largest. */
const growSteps = 32

export class AdaptiveConcurrency {
  readonly #policy: ConcurrencyPolicy
  #limit: number
  #usualMs: number | undefined
  #slowPeriods = 0
  readonly #counts = new Uint32Array(classes)
  #seen = 0
  #periodFrom: number | undefined
  #busiest = 0

  constructor(policy: ConcurrencyPolicy) {
    this.#policy = policy
    this.#limit = policy.max
  }

  get limit(): number {
    return this.#limit
  }

  /** A call took so long while so many were under way; whether the limit has changed. */
  sample(now: number, tookMs: number, inFlight: number): boolean {
    this.#periodFrom ??= now
    this.#counts[Math.min(classes - 1, Math.floor(Math.log2(1 + tookMs) * classesPerDoubling))]! += 1
    this.#seen += 1
    if (inFlight > this.#busiest) this.#busiest = inFlight
    const passedMs = now - this.#periodFrom
    if (passedMs < periodMs || (this.#seen < samplesMin && passedMs < patienceMs)) return false
    return this.#close(now)
  }

  #close(now: number): boolean {
    const p99 = this.#p99()
    const before = this.#limit
    const usual = this.#usualMs ?? p99
    if (p99 > Math.max(usual * this.#policy.slowdown, usual + slackMs)) this.#tooSlow(usual)
    else this.#asUsual(usual, p99)
    this.#periodFrom = now
    this.#seen = 0
    this.#counts.fill(0)
    this.#busiest = 0
    return this.#limit !== before
  }

  #p99(): number {
    let left = this.#seen * 0.01
    let index = classes - 1
    for (; index > 0; index -= 1) {
      left -= this.#counts[index]!
      if (left < 0) break
    }
    return 2 ** ((index + 0.5) / classesPerDoubling) - 1
  }

  #tooSlow(usual: number): void {
    this.#slowPeriods += 1
    // At the bottom nothing more can be done: what lasts becomes the usual.
    if (this.#limit === this.#policy.min) this.#usualMs = usual * 1.05
    if (this.#slowPeriods < 2) return
    const bearable = Math.floor(Math.min(this.#limit, Math.max(this.#busiest, 1)) * shrink)
    this.#limit = Math.max(this.#policy.min, bearable)
  }

  #asUsual(usual: number, p99: number): void {
    this.#slowPeriods = 0
    // Quickly down, slowly up: a slow hour must not pass for the usual.
    this.#usualMs = p99 < usual ? (usual + p99) / 2 : usual * 0.95 + p99 * 0.05
    const { min, max } = this.#policy
    this.#limit = Math.min(max, this.#limit + Math.max(1, Math.ceil((max - min) / growSteps)))
  }
}
