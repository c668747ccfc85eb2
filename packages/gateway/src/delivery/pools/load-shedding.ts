/**
 * Load shedding (capacity throttle): bounds a pool's calls while some of its accounts are out to the remaining share
 * of its rate, or of the load that it carried before or is asked to carry now. So the remaining accounts get no more
 * than their own share, and the load of the others does not fall on them. A token bucket of that rate, a tenth of a
 * second deep and empty at first: a deeper one would be a burst just when the accounts bear none. Pure.
 */
import { SlicedCount } from '../accounts/sliced-count.ts'
import { TopicArrivals } from './topic-arrivals.ts'

export interface LoadSheddingOptions {
  /** Calls per second of all accounts together; `undefined` where one has no limit. */
  readonly ratePerSecond: number | undefined
  /** Demand is measured over this time. */
  readonly demandMs: number
  /** False turns load shedding off. */
  readonly enabled: boolean
}

/** The remaining capacity of a pool. */
export interface Remaining {
  /** The part of its rate that is out, from 0 to 1. */
  readonly outShare: number
}

/** Throughput is measured over this time, ms. */
const throughputMs = 10_000
/** Minimum time covered by a measurement of throughput, ms. */
const knownMs = 1_000
/**
 * The load before an incident is at least one call within the time that is measured: a pool that had carried nothing would
 * admit nothing, and its dead letters would not return before all accounts are back.
 */
const leastPerSecond = 1_000 / throughputMs
/** Factor by which demand must exceed the throughput before it counts: arrivals of any second vary a little. */
const growth = 1.1
/** The same for arrivals in topics, of which the highest rate counts for as long as records have to stay there. */
const burst = 1.5

export class LoadShedding {
  readonly #options: LoadSheddingOptions
  readonly #carried = new SlicedCount(throughputMs, 20)
  readonly #asked: SlicedCount
  readonly #topics: TopicArrivals
  readonly #bornAt: number
  #remaining: Remaining = { outShare: 0 }
  /** Load per second before accounts went out; `undefined` where it was not known. */
  #before: number | undefined
  #healthySince = Number.NEGATIVE_INFINITY
  #tokens = 0
  #filledAt = 0

  constructor(options: LoadSheddingOptions, now: number) {
    this.#options = options
    this.#asked = new SlicedCount(options.demandMs, 10)
    this.#topics = new TopicArrivals(options.demandMs)
    this.#bornAt = now
  }

  get isActive(): boolean {
    return this.#options.enabled && this.#remaining.outShare > 0
  }

  /** Counts notifications new in the queue (or, negative, not new after all). */
  asked(now: number, count: number): void {
    this.#asked.add(now, count)
  }

  /** Counts a record that an intake takes from its topic, by its timestamp. It is `asked` as well when it is queued. */
  taken(now: number, timestamp: number): void {
    this.#topics.taken(now, timestamp)
  }

  /** Says that the pace of intakes leaves a record in its topic. */
  heldBack(now: number): void {
    this.#topics.heldBack(now)
  }

  /** Counts a call made (or, -1, a call that came to nothing). */
  carried(now: number, by: 1 | -1): void {
    this.#carried.add(now, by)
  }

  /** Called when accounts went out or came back. */
  change(now: number, remaining: Remaining): void {
    if (this.#remaining.outShare === 0 && remaining.outShare > 0) {
      const carried = this.#throughput(now)
      // The throughput during recovery from the last incident is lower than what the pool can carry.
      const recent = now - this.#healthySince < throughputMs ? this.#before : undefined
      this.#before = carried === undefined ? recent : Math.max(carried, recent ?? 0)
      this.#tokens = 1
      this.#filledAt = now
    } else {
      this.#fill(now)
    }
    if (this.#remaining.outShare > 0 && remaining.outShare === 0) this.#healthySince = now
    if (remaining.outShare >= 1) this.#tokens = 0
    this.#remaining = remaining
  }

  /** Returns the number of calls that may begin now. */
  room(now: number): number {
    if (!this.isActive) return Number.POSITIVE_INFINITY
    this.#fill(now)
    return Math.floor(this.#tokens + 1e-9)
  }

  /**
   * Tests if the pool has admitted as much as it saves up, which nobody has used: then the accounts, or the gateway,
   * carry less than is admitted.
   */
  hasUnused(now: number): boolean {
    return this.isActive && this.room(now) >= Math.floor(depthOf(this.admitted(now)))
  }

  take(): void {
    if (this.isActive) this.#tokens -= 1
  }

  giveBack(): void {
    if (this.isActive) this.#tokens += 1
  }

  /** Returns the instant at which the next call may begin; `undefined` while none may. */
  freeAt(now: number): number | undefined {
    if (this.room(now) >= 1) return now
    const perSecond = this.admitted(now)
    // Whole milliseconds: a timer for less would not advance the clock.
    return perSecond === 0
      ? undefined
      : now + Math.max(1, Math.ceil(((1 - this.#tokens) / perSecond) * 1_000))
  }

  /** Computes the admitted calls per second. */
  admitted(now: number): number {
    const { outShare } = this.#remaining
    if (outShare >= 1) return 0
    const rate = this.#options.ratePerSecond ?? Number.POSITIVE_INFINITY
    return (1 - outShare) * Math.min(rate, this.#demand(now))
  }

  #demand(now: number): number {
    const before = Math.max(leastPerSecond, this.#before ?? Number.POSITIVE_INFINITY)
    const coveredMs = Math.max(this.#asked.coveredMs(now), this.#options.demandMs * 0.9)
    const asked = (this.#asked.sum(now) / coveredMs) * 1_000
    const arrived = this.#topics.perSecond(now)
    if (asked <= before * growth && arrived <= before * burst) return before
    return Math.max(asked, arrived)
  }

  #throughput(now: number): number | undefined {
    const coveredMs = this.#carried.coveredMs(now)
    if (coveredMs < knownMs) return now - this.#bornAt < throughputMs ? undefined : 0
    return (this.#carried.sum(now) / coveredMs) * 1_000
  }

  #fill(now: number): void {
    const perSecond = this.admitted(now)
    const deepest = depthOf(perSecond)
    const filled =
      perSecond === Number.POSITIVE_INFINITY
        ? Number.POSITIVE_INFINITY
        : this.#tokens + ((now - this.#filledAt) / 1_000) * perSecond
    this.#tokens = Math.min(deepest, filled)
    this.#filledAt = now
  }
}

/** Returns the calls that the token bucket holds at most: a tenth of a second of what is admitted. */
function depthOf(perSecond: number): number {
  return Math.max(1, perSecond / 10)
}
