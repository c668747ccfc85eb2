/**
 * Token buckets in this process. A bucket that is full again is as good as none, and is dropped in passing: two are
 * looked at for each new one, so that no timer runs and no sweep stalls.
 */

import { type Bucket, type BucketRate, type BucketStore, decide, missingAt } from '../buckets.ts'
import { checkOptions } from '../calls.ts'
import { LimitsError } from '../errors.ts'

export interface MemoryBucketsOptions {
  /**
   * Epoch milliseconds.
   *
   * @defaultValue Date.now
   */
  readonly now?: () => number
}

interface KeptBucket extends Bucket {
  readonly fullAt: number
}

const looksPerBucket = 2

/** Token buckets in this process, gone when it ends. @throws LimitsError `INVALID_ARGUMENT` */
export function memoryBuckets(options: MemoryBucketsOptions = {}): BucketStore & { readonly size: number } {
  const { now = () => Date.now() } = checkOptions(options, 'now')
  if (typeof now !== 'function')
    throw new LimitsError('INVALID_ARGUMENT', 'now is a function that returns epoch milliseconds')
  const buckets = new Map<string, KeptBucket>()
  let walk = buckets.entries()

  function keep(key: string, bucket: KeptBucket): void {
    if (!buckets.has(key)) for (let look = 0; look < looksPerBucket; look += 1) dropIfFull(bucket.at)
    buckets.set(key, bucket)
  }

  function dropIfFull(at: number): void {
    const step = walk.next()
    if (step.done === true) walk = buckets.entries()
    else if (step.value[1].fullAt <= at) buckets.delete(step.value[0])
  }

  function draw(key: string, rate: BucketRate, cost: number, counts: boolean) {
    const at = Math.floor(now())
    const missing = missingAt(buckets.get(key), rate, at)
    const decision = decide(missing, rate, cost, at, counts)
    const { windowMs } = rate
    if (decision.allowed && counts)
      keep(key, { missing: missing + cost * windowMs, at, windowMs, fullAt: decision.resetAt })
    return decision
  }

  return {
    get size() {
      return buckets.size
    },
    draw: async (key, rate, cost, counts) => draw(key, rate, cost, counts),
    async reset(key) {
      buckets.delete(key)
    },
  }
}
