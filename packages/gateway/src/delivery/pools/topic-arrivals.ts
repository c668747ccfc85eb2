/**
 * Measures how fast records arrive in their topics. An intake takes no more than the pools carry, so what it takes says
 * nothing of the demand; the timestamps of the records do: a burst that is taken over a minute still arrived within a
 * second. While records have to stay in their topics, the highest rate that was measured holds. Pure.
 */

/** The span of the timestamps counts as so long at least, ms: records of one instant are a burst of a second. */
const spanMinMs = 1_000
/** Fewer records say nothing of their rate. */
const leastCount = 20
/** A timestamp that lies further back or ahead is none, ms: a producer left it out, wrote seconds, or has a wrong clock. */
const backMsMax = 31 * 86_400_000
const aheadMsMax = 60_000
/** The window in which records are taken is cut into so many slices of time, as in sliced-count.ts. */
const sliceCount = 10

interface Slice {
  number: number
  count: number
  /** The earliest and the latest timestamp; infinite where there is none. */
  from: number
  to: number
}

export class TopicArrivals {
  readonly #windowMs: number
  readonly #slices: readonly Slice[]
  #highest = 0
  #heldUntil = Number.NEGATIVE_INFINITY

  constructor(windowMs: number) {
    this.#windowMs = windowMs
    this.#slices = Array.from({ length: sliceCount }, () => ({ number: -1, count: 0, from: 0, to: 0 }))
  }

  /** Counts a record that is taken, by the timestamp with which it stands in its topic. */
  taken(now: number, timestamp: number): void {
    const number = this.#sliceAt(now)
    const slice = this.#slices[number % sliceCount]!
    if (slice.number !== number)
      Object.assign(slice, { number, count: 0, from: Number.POSITIVE_INFINITY, to: Number.NEGATIVE_INFINITY })
    slice.count += 1
    if (timestamp < now - backMsMax || timestamp > now + aheadMsMax) return
    slice.from = Math.min(slice.from, timestamp)
    slice.to = Math.max(slice.to, timestamp)
  }

  /** Says that a record has to stay in its topic. */
  heldBack(now: number): void {
    this.#highest = Math.max(this.perSecond(now), this.#measure(now))
    this.#heldUntil = now + this.#windowMs
  }

  /** Returns the records a second that arrived in the topics; 0 unless records had to stay there in the time just passed. */
  perSecond(now: number): number {
    return now < this.#heldUntil ? this.#highest : 0
  }

  #sliceAt(now: number): number {
    return Math.floor((now * sliceCount) / this.#windowMs)
  }

  #measure(now: number): number {
    const oldest = this.#sliceAt(now) - sliceCount
    const slices = this.#slices.filter(({ number }) => number > oldest)
    const count = slices.reduce((sum, slice) => sum + slice.count, 0)
    if (count < leastCount) return 0
    const from = Math.min(...slices.map((slice) => slice.from))
    const to = Math.max(...slices.map((slice) => slice.to))
    return (count * 1_000) / Math.max(spanMinMs, to - from)
  }
}
