/**
 * When the subjects in memory are to be looked at, so that each goes soon after it is over and none is looked at
 * much more often than once in its longest window. A subject stands in one bucket, by the instant at which it may be
 * over; a bucket is an eighth of the time from now on wide at most, so that there are few of them and none is sorted.
 *
 * Going round all of them instead, two for each that comes, made each new subject touch the memory of two others, and
 * forgot nothing where nobody new came.
 */

/** As many a timer looks at in one turn of the event loop: some milliseconds. */
const looksPerTurn = 5_000
/** The longest that setTimeout waits; whatever is due later is asked for again. */
const timerMsMax = 2 ** 31 - 1

export class ExpiryQueue<T> {
  /** When the first bucket is due, epoch ms. */
  nextMs = Number.POSITIVE_INFINITY
  readonly #buckets = new Map<number, T[]>()
  readonly #expire: (item: T, now: number) => number | undefined
  readonly #isKnown: (item: T) => boolean
  readonly #clock: (() => number) | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #size = 0
  #leftCount = 0

  /**
   * @param expire drops what is over; answers when to look again, or undefined where the item is gone
   * @param isKnown false for items that have left by another way
   * @param clock by which a timer looks too; without one only calls do
   */
  constructor(
    expire: (item: T, now: number) => number | undefined,
    isKnown: (item: T) => boolean,
    clock: (() => number) | undefined,
  ) {
    this.#expire = expire
    this.#isKnown = isKnown
    this.#clock = clock
  }

  add(item: T, now: number, dueMs: number): void {
    const width = 2 ** Math.max(0, Math.floor(Math.log2(Math.max(1, dueMs - now))) - 3)
    const at = Math.ceil(dueMs / width) * width
    const bucket = this.#buckets.get(at)
    if (bucket === undefined) this.#buckets.set(at, [item])
    else bucket.push(item)
    this.#size += 1
    if (at < this.nextMs) this.nextMs = at
    if (this.#timer === undefined && this.#clock !== undefined) this.#arm(now)
  }

  /** An item has left by another way. Those that have are let go when they are the half. */
  left(): void {
    this.#leftCount += 1
    if (2 * this.#leftCount <= this.#size) return
    this.#size = 0
    this.#leftCount = 0
    for (const [at, bucket] of this.#buckets) {
      const kept = bucket.filter(this.#isKnown)
      this.#size += kept.length
      if (kept.length > 0) this.#buckets.set(at, kept)
      else this.#buckets.delete(at)
    }
    this.#findNext()
  }

  /** Looks at so many of those that are due. */
  sweep(now: number, looksMax: number): void {
    for (let looks = 0; looks < looksMax && now >= this.nextMs; looks += 1) {
      const bucket = this.#buckets.get(this.nextMs)!
      const item = bucket.pop()!
      this.#size -= 1
      if (bucket.length === 0) {
        this.#buckets.delete(this.nextMs)
        this.#findNext()
      }
      if (!this.#isKnown(item)) {
        this.#leftCount -= 1
        continue
      }
      const next = this.#expire(item, now)
      if (next !== undefined) this.add(item, now, Math.max(next, now + 1))
    }
  }

  #findNext(): void {
    this.nextMs = Number.POSITIVE_INFINITY
    for (const at of this.#buckets.keys()) if (at < this.nextMs) this.nextMs = at
  }

  /** A timer keeps neither the process nor the store alive. */
  #arm(now: number): void {
    const queue = new WeakRef(this)
    const wake = (): void => {
      const known = queue.deref()
      if (known !== undefined) known.#wake()
    }
    this.#timer = setTimeout(wake, Math.min(timerMsMax, Math.max(1, this.nextMs - now)))
    // Elsewhere than in Node a timer is a number.
    this.#timer.unref?.()
  }

  #wake(): void {
    this.#timer = undefined
    const now = this.#clock!()
    this.sweep(now, looksPerTurn)
    if (this.#timer === undefined && this.nextMs < Number.POSITIVE_INFINITY) this.#arm(now)
  }
}
