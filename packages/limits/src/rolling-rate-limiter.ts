/** The options of the package rolling-rate-limiter as limits of this one, for those who come from there. */
import { checkOptions } from './calls.ts'
import { LimitsError } from './errors.ts'
import { type Limit, limit } from './limit.ts'

/** What rolling-rate-limiter is configured with; times are milliseconds. */
export interface RollingRateLimiterOptions {
  /** The window, ms. */
  readonly interval: number
  /** How many are allowed in it, 1 or more. */
  readonly maxInInterval: number
  /**
   * The least distance between two, ms. 0 is none.
   *
   * @defaultValue 0
   */
  readonly minDifference?: number
  /**
   * Whether a refused attempt counts too, as it does there: somebody who tries faster than allowed stays locked out.
   * Here it does not unless told so.
   *
   * @defaultValue false
   */
  readonly countRefused?: boolean
}

/**
 * Limits with the numbers of rolling-rate-limiter, for `take` and everything else. They admit what it admits; after a
 * refusal they differ, because it counts refused attempts. With `countRefused` both answer the same. Times are whole
 * milliseconds here and microseconds there.
 *
 * @throws LimitsError `INVALID_ARGUMENT`, `INVALID_LIMIT`, `INVALID_WINDOW`, `INVALID_DURATION`
 */
export function fromRollingRateLimiter(options: RollingRateLimiterOptions): readonly Limit[] {
  const {
    interval,
    maxInInterval,
    minDifference = 0,
    countRefused = false,
  } = checkOptions(options, 'interval', 'maxInInterval', 'minDifference', 'countRefused')
  if (!(Number.isInteger(interval) && interval > 0)) refuse('interval', interval, 1)
  if (!(Number.isInteger(maxInInterval) && maxInInterval > 0)) refuse('maxInInterval', maxInInterval, 1)
  if (!(Number.isInteger(minDifference) && minDifference >= 0)) refuse('minDifference', minDifference, 0)
  const gap = minDifference === 0 ? {} : { minGap: minDifference }
  // A distance as long as the interval lets one through in it, whatever else it may hold.
  const windows = minDifference === interval ? [] : `${maxInInterval}/${interval}ms`
  return [limit('rolling', windows, { ...gap, countRefused })]
}

function refuse(name: string, value: unknown, min: number): never {
  throw new LimitsError('INVALID_ARGUMENT', `${name} is a whole number, ${min} or more, not ${String(value)}`)
}
