/**
 * How many calls at once an account bears, found from how long they take. What is usual for it is the 99th percentile of
 * a hundred calls or more; a call much slower than that is slow. When for two seconds on end more calls were slow than
 * the hundredth that may be, and more than a few, the limit shrinks to a share of what was under way; else it grows by a
 * step (AIMD). Providers that throttle without a word (APNs) are met by this. Pure.
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
/** A period with fewer calls goes on, up to `patienceMs`, and with fewer than can tell anything beyond it. */
const samplesMin = 10
const patienceMs = 4_000
/** So many slow calls are no sign, however few there are in all: a connection was opened, a disk stood still. */
const strayMax = 2
/** A percentile of fewer calls than this would be the slowest of them. */
const usualSamples = 100
const slowShare = 0.01
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
  /** Since the usual was last learnt, without periods that were slow. */
  readonly #counts = new Uint32Array(classes)
  #counted = 0
  /** In this period. */
  #seen = 0
  #slow = 0
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
    this.#counted += 1
    this.#seen += 1
    if (tookMs > this.#slowFromMs) this.#slow += 1
    if (inFlight > this.#busiest) this.#busiest = inFlight
    const passedMs = now - this.#periodFrom
    const samples = passedMs < patienceMs ? samplesMin : strayMax + 1
    if (passedMs < periodMs || this.#seen < samples) return false
    return this.#close(now)
  }

  get #slowFromMs(): number {
    const usual = this.#usualMs ?? Number.POSITIVE_INFINITY
    return Math.max(usual * this.#policy.slowdown, usual + slackMs)
  }

  #close(now: number): boolean {
    const before = this.#limit
    if (this.#slow > Math.max(this.#seen * slowShare, strayMax)) this.#tooSlow()
    else this.#asUsual()
    this.#periodFrom = now
    this.#seen = 0
    this.#slow = 0
    this.#busiest = 0
    return this.#limit !== before
  }

  #p99(): number {
    let left = this.#counted * slowShare
    let index = classes - 1
    for (; index > 0; index -= 1) {
      left -= this.#counts[index]!
      if (left < 0) break
    }
    return 2 ** ((index + 0.5) / classesPerDoubling) - 1
  }

  #forget(): void {
    this.#counts.fill(0)
    this.#counted = 0
  }

  #tooSlow(): void {
    this.#forget()
    this.#slowPeriods += 1
    // At the bottom nothing more can be done: what lasts becomes the usual.
    if (this.#limit === this.#policy.min && this.#usualMs !== undefined) this.#usualMs *= 1.05
    if (this.#slowPeriods < 2) return
    const bearable = Math.floor(Math.min(this.#limit, Math.max(this.#busiest, 1)) * shrink)
    this.#limit = Math.max(this.#policy.min, bearable)
  }

  #asUsual(): void {
    this.#slowPeriods = 0
    const { min, max } = this.#policy
    this.#limit = Math.min(max, this.#limit + Math.max(1, Math.ceil((max - min) / growSteps)))
    // The first period has to do; the slowest of a few is on the safe side.
    if (this.#usualMs !== undefined && this.#counted < usualSamples) return
    const p99 = this.#p99()
    const usual = this.#usualMs ?? p99
    // Quickly down, slowly up: a slow hour must not pass for the usual.
    this.#usualMs = p99 < usual ? (usual + p99) / 2 : usual * 0.95 + p99 * 0.05
    this.#forget()
  }
}
