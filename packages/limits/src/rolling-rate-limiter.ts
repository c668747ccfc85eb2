/** The options and the call of the package rolling-rate-limiter, for those who come from there. */
import { checkOptions } from './calls.ts'
import { LimitsError } from './errors.ts'
import { type Limit, limit } from './limit.ts'
import { createLimits } from './limits.ts'
import type { Store } from './store.ts'

/** The options of rolling-rate-limiter; times are milliseconds. */
export interface RollingRateLimiterOptions {
  /** The window, ms. */
  readonly interval: number
  /** The number that is allowed in it, 1 or more. */
  readonly maxInInterval: number
  /**
   * The least distance between two, ms. 0 is none.
   *
   * @defaultValue 0
   */
  readonly minDifference?: number
  /**
   * True where a refused attempt counts too, as it does there: a caller that tries faster than allowed stays locked out.
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

/** @param timeLeft ms until it would be allowed; 0 where it is allowed @param actionsLeft how many more may go now */
export type RollingCallback = (
  error: Error | null,
  timeLeft: number | undefined,
  actionsLeft: number | undefined,
) => void

/** The call of rolling-rate-limiter: counts one for the id, and answers how long it has to wait. */
export interface RollingRateLimiter {
  /** Resolves to ms until it would be allowed; 0 where it is allowed. */
  (id?: string): Promise<number>
  /** The same by a callback, without an id for what all share. */
  (callback: RollingCallback): void
  (id: string, callback: RollingCallback): void
}

/**
 * A function with the options and the call of rolling-rate-limiter 0.1: `limiter(id, (error, timeLeft) => …)`, and
 * beside it `await limiter(id)`. A wait that never ends is Infinity.
 *
 * @throws LimitsError as `fromRollingRateLimiter`; what a call rejects with, the callback gets as its first argument
 */
export function createRollingRateLimiter({
  store,
  ...options
}: RollingRateLimiterOptions & {
  /** Where the state lives. @defaultValue `memoryStore()` */
  readonly store?: Store
}): RollingRateLimiter {
  const rules = fromRollingRateLimiter(options)
  const limits = createLimits(store === undefined ? {} : { store })

  async function count(id: string): Promise<readonly [timeLeft: number, actionsLeft: number]> {
    const { allowed, retryAfterMs, rules: rows } = await limits.take(`rolling:${id}`, rules)
    const actionsLeft = allowed ? Math.min(...rows.map(({ remaining }) => remaining)) : 0
    return [retryAfterMs, actionsLeft]
  }

  function limiter(first?: string | RollingCallback, second?: RollingCallback): Promise<number> | undefined {
    const [id, callback] = typeof first === 'function' ? ['', first] : [first ?? '', second]
    const counted = count(id)
    if (callback === undefined) return counted.then(([timeLeft]) => timeLeft)
    counted.then(
      ([timeLeft, actionsLeft]) => callback(null, timeLeft, actionsLeft),
      (error: Error) => callback(error, undefined, undefined),
    )
    return undefined
  }
  return limiter as RollingRateLimiter
}

function refuse(name: string, value: unknown, min: number): never {
  throw new LimitsError('INVALID_ARGUMENT', `${name} is a whole number, ${min} or more, not ${String(value)}`)
}
