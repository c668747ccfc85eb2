/**
 * Adapts the concurrency of an account to its latency. The usual latency is the 99th percentile of at least a hundred
 * calls; a call much slower than that is slow. When in two consecutive seconds more than one call in a hundred is
 * slow, and more than a few, the limit shrinks to a share of the calls in flight; otherwise it grows by a step
 * (AIMD). This answers providers that throttle without an error (APNs). Pure.
 */
export interface ConcurrencyPolicy {
  /** Minimum of concurrent calls. @defaultValue 1 */
  readonly min: number
  /** Maximum of concurrent calls. */
  readonly max: number
  /** Multiple of the usual latency that is slow. @defaultValue 2 */
  readonly slowdown: number
}

const periodMs = 1_000
/**
 * Minimum of calls in a period. With fewer it goes on, up to `patienceMs`, and longer while there are too few to
 * judge.
 */
const samplesMin = 10
const patienceMs = 4_000
/** Slow calls that are ignored in any period: a connection was opened, a disk stalled. */
const strayMax = 2
/** Minimum of calls for a percentile: with fewer it would be the slowest of them. */
const usualSamples = 100
const slowShare = 0.01
/** Calls slower by less than this are not slow, ms: the latency includes ticks of the event loop. */
const slackMs = 50
/** Share of the calls in flight that remains when the limit shrinks. */
const shrink = 0.7
/** Latencies are counted in classes that grow by 9 %: eight per doubling, up to a minute. */
const classesPerDoubling = 8
const classes = 128
/** Steps from the minimum to the maximum. */
const growSteps = 32

export class AdaptiveConcurrency {
  readonly #policy: ConcurrencyPolicy
  #limit: number
  #usualMs: number | undefined
  #slowPeriods = 0
  /** Histogram since the usual latency was last learned, without slow periods. */
  readonly #counts = new Uint32Array(classes)
  #counted = 0
  /** Calls in this period. */
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

  /** Goes on from another limit, within its own bounds. */
  resize(limit: number): void {
    this.#limit = Math.min(this.#policy.max, Math.max(this.#policy.min, limit))
  }

  /** Records the latency of a call and the calls in flight; true if the limit changed. */
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
    // At the minimum nothing more can be done, so lasting slowness becomes the usual latency.
    if (this.#limit === this.#policy.min && this.#usualMs !== undefined) this.#usualMs *= 1.05
    if (this.#slowPeriods < 2) return
    const bearable = Math.floor(Math.min(this.#limit, Math.max(this.#busiest, 1)) * shrink)
    this.#limit = Math.max(this.#policy.min, bearable)
  }

  #asUsual(): void {
    this.#slowPeriods = 0
    const { min, max } = this.#policy
    this.#limit = Math.min(max, this.#limit + Math.max(1, Math.ceil((max - min) / growSteps)))
    // The first period has to do for the first estimate; the slowest of a few calls is the safe choice.
    if (this.#usualMs !== undefined && this.#counted < usualSamples) return
    const p99 = this.#p99()
    const usual = this.#usualMs ?? p99
    // It falls quickly and rises slowly: a slow hour must not become the usual latency.
    this.#usualMs = p99 < usual ? (usual + p99) / 2 : usual * 0.95 + p99 * 0.05
    this.#forget()
  }
}
