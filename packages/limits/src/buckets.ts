/**
 * The arithmetic of a token bucket, and nothing else. A bucket is how much is missing in it, in tokens times the
 * milliseconds of the refill window: whole numbers, so that the script and this file reckon alike to the last digit.
 * A full bucket has nothing missing and need not be kept.
 */

/** The refill rate and the capacity of a bucket. */
export interface BucketRate {
  readonly capacity: number
  /** So many tokens per `windowMs`, one after the other. */
  readonly refill: number
  readonly windowMs: number
}

export interface Bucket {
  /** Tokens × windowMs. */
  readonly missing: number
  /** The instant of that state, epoch ms. */
  readonly at: number
  readonly windowMs: number
}

/** The answer of a bucket. Instants are epoch milliseconds. */
export interface BucketDecision {
  readonly allowed: boolean
  /** Whole tokens that are left once this call is done. */
  readonly remaining: number
  /** The wait until so much is there, ms; Infinity for more than the bucket ever holds. */
  readonly retryAfterMs: number
  /** The instant at which it is full again once this call is done. */
  readonly resetAt: number
}

/** The store of the buckets: `memoryBuckets()` or `redisBuckets(client)`. */
export interface BucketStore {
  /** Takes `cost` tokens, all or none; where it does not count it only says what would be. */
  draw(key: string, rate: BucketRate, cost: number, counts: boolean): Promise<BucketDecision>
  /** Fills a bucket. */
  reset(key: string): Promise<void>
}

/** Computes how much is missing now. A clock that steps back refills nothing. A bucket keeps its tokens when its rate changes. */
export function missingAt(bucket: Bucket | undefined, rate: BucketRate, now: number): number {
  if (bucket === undefined) return 0
  const { capacity, refill, windowMs } = rate
  const { missing, windowMs: before } = bucket
  const scaled = before === windowMs ? missing : Math.ceil((missing / before) * windowMs)
  const left = scaled - Math.max(0, now - bucket.at) * refill
  return Math.min(Math.max(0, left), capacity * windowMs)
}

/** Tells whether a bucket from which so much is missing has `cost` tokens. */
function has(missing: number, { capacity, windowMs }: BucketRate, cost: number): boolean {
  return missing + cost * windowMs <= capacity * windowMs
}

/** @param missing before the call */
export function decide(
  missing: number,
  rate: BucketRate,
  cost: number,
  now: number,
  counts: boolean,
): BucketDecision {
  const { capacity, refill, windowMs } = rate
  const allowed = has(missing, rate, cost)
  const after = allowed && counts ? missing + cost * windowMs : missing
  const short = missing + cost * windowMs - capacity * windowMs
  return {
    allowed,
    remaining: Math.floor((capacity * windowMs - after) / windowMs),
    retryAfterMs: cost > capacity ? Number.POSITIVE_INFINITY : Math.max(0, Math.ceil(short / refill)),
    resetAt: now + Math.ceil(after / refill),
  }
}
