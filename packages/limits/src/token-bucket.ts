/**
 * A token bucket, for those who want one although it is not exact: a number per key however high the rate, and bursts
 * up to the capacity. What it does not do stands at `tokenBucket`.
 */
import type { BucketDecision, BucketRate, BucketStore } from './buckets.ts'
import { checkKey, checkOptions } from './calls.ts'
import { LimitsError } from './errors.ts'
import { memoryBuckets } from './stores/memory-buckets.ts'
import { parseWindow, shortWindowMsMax, windowCountMax } from './window.ts'

export interface TokenBucketOptions {
  /** The tokens of a full bucket, which are the largest burst. 0 refuses everything. */
  readonly capacity: number
  /** The refill rate: `'10/s'` gives a token every 100 ms. */
  readonly refill: string
  /**
   * Where the buckets live.
   *
   * @defaultValue `memoryBuckets()`
   */
  readonly store?: BucketStore
}

/** Every method rejects with a LimitsError: `INVALID_ARGUMENT` for what was passed, `STORE_UNAVAILABLE`. */
export interface TokenBucket {
  /** Takes `cost` tokens (1 where none is given), all or none. */
  take(key: string, cost?: number): Promise<BucketDecision>
  /** Answers as `take` would; takes nothing. */
  check(key: string, cost?: number): Promise<BucketDecision>
  /** Fills the bucket. */
  reset(key: string): Promise<void>
}

/**
 * A token bucket per key: bursts up to `capacity`, and on average the refill.
 *
 * It is not exact. A full bucket of capacity N that refills N per window lets N through at once and N more while it
 * refills: up to 2N in one rolling window. Where somebody counts windows (a provider, a promise to a person) take
 * `limit('…', 'N/window')`, which never lets more through than N, says which of several windows decides, and can
 * reserve. Take a bucket where a burst does no harm, where N is so large that keeping every instant is too much, or
 * where something else expects one.
 *
 * @throws LimitsError `INVALID_ARGUMENT`, `INVALID_WINDOW`
 */
export function tokenBucket(options: TokenBucketOptions): TokenBucket {
  const { capacity, refill, store = memoryBuckets() } = checkOptions(options, 'capacity', 'refill', 'store')
  if (!isCount(capacity, 0))
    refuse(`capacity is a whole number from 0 to ${windowCountMax}, not ${String(capacity)}`)
  const { max, windowMs, text } = parseWindow(refill)
  if (windowMs > shortWindowMsMax)
    refuse(`refill '${text}' is of more than 31 days: write it for a shorter time`)
  if (max === 0) refuse(`refill '${text}' would never fill the bucket: a capacity of 0 refuses everything`)
  if (typeof store?.draw !== 'function') refuse('store is memoryBuckets() or redisBuckets(client)')
  const rate: BucketRate = { capacity, refill: max, windowMs }

  async function draw(key: string, cost: number, counts: boolean): Promise<BucketDecision> {
    checkKey('key', key)
    if (!isCount(cost, 1)) refuse(`cost is a whole number from 1 to ${windowCountMax}, not ${String(cost)}`)
    return store.draw(key, rate, cost, counts)
  }

  return {
    take: (key, cost = 1) => draw(key, cost, true),
    check: (key, cost = 1) => draw(key, cost, false),
    async reset(key) {
      checkKey('key', key)
      await store.reset(key)
    },
  }
}

function isCount(value: unknown, min: number): boolean {
  return Number.isInteger(value) && (value as number) >= min && (value as number) <= windowCountMax
}

function refuse(reason: string): never {
  throw new LimitsError('INVALID_ARGUMENT', reason)
}
