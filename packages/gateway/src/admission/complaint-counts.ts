/**
 * Counts what was delivered and what recipients complained about, by tenant and category, in a rolling window. The window
 * moves by buckets: the oldest one leaves as a whole when its end is out of the window, so that an event counts for the
 * window and at most a 168th of it longer (an hour of seven days). Departures of the last hour are counted by minute.
 */
import type { ComplaintCounts } from '../reports.ts'

/** Buckets of a window: 1.3 KiB for each tenant and category. */
const bucketsPerWindow = 168
const minuteMs = 60_000
/** Minutes of departures that are kept: the hour before the present one. */
const minutesKept = 60

/** A bucket may be a fraction of a window that is no whole number of ms: it is rounded up. */
export const bucketMsOf = (windowMs: number): number => Math.max(1, Math.ceil(windowMs / bucketsPerWindow))

/** A sum over the last buckets of a ring, each of which is one counter. */
class RollingSum {
  readonly #ring: Uint32Array
  readonly #bucketMs: number
  /** The bucket of the newest event; older ones than this less the ring's length are gone. */
  #newest = 0
  sum = 0

  constructor(length: number, bucketMs: number) {
    this.#ring = new Uint32Array(length)
    this.#bucketMs = bucketMs
  }

  /** Adds events of one bucket; those that are out of the ring already do not count. */
  add(bucket: number, count: number): void {
    this.roll(bucket)
    if (bucket <= this.#newest - this.#ring.length) return
    this.#ring[bucket % this.#ring.length]! += count
    this.sum += count
  }

  /** Moves on to a later bucket. */
  roll(bucket: number): void {
    if (bucket <= this.#newest) return
    const gone = Math.min(this.#ring.length, bucket - this.#newest)
    for (let step = 1; step <= gone; step += 1) {
      const place = (this.#newest + step) % this.#ring.length
      this.sum -= this.#ring[place]!
      this.#ring[place] = 0
    }
    this.#newest = bucket
  }

  /** Answers the sum as it will be at each bucket to come, if nothing more happens. */
  *ahead(): Generator<{ readonly bucket: number; readonly sum: number }> {
    let sum = this.sum
    for (let step = 1; step <= this.#ring.length; step += 1) {
      sum -= this.#ring[(this.#newest + step) % this.#ring.length]!
      yield { bucket: this.#newest + step, sum }
    }
  }

  clear(): void {
    this.#ring.fill(0)
    this.sum = 0
  }

  bucketOf(instant: number): number {
    return Math.floor(instant / this.#bucketMs)
  }
}

/** The counts of one category of one tenant. */
export class RollingComplaints implements ComplaintCounts {
  readonly #bucketMs: number
  readonly #delivered: RollingSum
  readonly #complained: RollingSum
  readonly #departures = new RollingSum(minutesKept, minuteMs)

  constructor(windowMs: number) {
    this.#bucketMs = bucketMsOf(windowMs)
    // One more bucket than a window: the oldest one is partly out of it.
    const length = Math.ceil(windowMs / this.#bucketMs) + 1
    this.#delivered = new RollingSum(length, this.#bucketMs)
    this.#complained = new RollingSum(length, this.#bucketMs)
  }

  get delivered(): number {
    return this.#delivered.sum
  }

  get complained(): number {
    return this.#complained.sum
  }

  /** The departures of the hour that ended with the last minute that was counted. */
  get departedLastHour(): number {
    return this.#departures.sum
  }

  /** Counts deliveries by the instant at which they left. */
  addDelivered(leftAt: number, count = 1): void {
    this.#delivered.add(this.#delivered.bucketOf(leftAt), count)
  }

  /** Counts departures, by minute; the caller counts the same ones as delivered. */
  addDepartures(leftAt: number, count = 1): void {
    this.#departures.add(this.#departures.bucketOf(leftAt), count)
  }

  addComplained(at: number, count = 1): void {
    this.#complained.add(this.#complained.bucketOf(at), count)
  }

  /** Forgets all complaints: they are counted anew. */
  clearComplained(): void {
    this.#complained.clear()
  }

  /** Forgets what has left the window by now. */
  roll(now: number): void {
    this.#delivered.roll(this.#delivered.bucketOf(now))
    this.#complained.roll(this.#complained.bucketOf(now))
    this.#departures.roll(this.#departures.bucketOf(now))
  }

  /** Finds the instant at which the counts satisfy the test if nothing more happens. Rolled to now by the caller. */
  earliest(satisfies: (counts: ComplaintCounts) => boolean): number {
    const delivered = this.#delivered.ahead()
    for (const { bucket, sum: complained } of this.#complained.ahead()) {
      const counts = { complained, delivered: delivered.next().value?.sum ?? 0 }
      if (satisfies(counts)) return bucket * this.#bucketMs
    }
    return Number.POSITIVE_INFINITY
  }

  /** The instant at which the next bucket leaves, so that the counts may change by themselves. */
  changesAfter(now: number): number {
    return (this.#delivered.bucketOf(now) + 1) * this.#bucketMs
  }
}
