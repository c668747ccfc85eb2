/** The delays after which a notification is decided again that could not be decided. */
import { concernsAll } from '../errors.ts'
import type { Clock } from '../ports.ts'

export interface DecisionRetries {
  /** Counts a failure, and returns the delay until the next try, ms: it doubles with each. */
  next(id: string, error?: unknown): number
  /** Forgets the failures of one that was decided. */
  decided(id: string): void
}

export const retryMsMin = 500
const retryMsMax = 60_000
/**
 * While the record or the limits are away nothing can be decided, and all of it is to be soon after they are back, ms. Where
 * thousands wait, so many are tried again in a millisecond at most, for each try costs the gateway something.
 */
const awayMsMax = 2_000
const triesPerMs = 1
/** Notifications whose failures are remembered; beyond this number all counts start at zero again. */
const failuresMax = 10_000
/** Behind the last failure, ms: what failed has been tried again by then, and what is still counted has ended another way. */
const forgottenMs = 2 * retryMsMax

export function createDecisionRetries(clock: Pick<Clock, 'monotonic'>): DecisionRetries {
  /** Consecutive failures of notifications that are being retried. */
  const failures = new Map<string, number>()
  let failedAt = Number.NEGATIVE_INFINITY

  return {
    next(id, error) {
      const now = clock.monotonic()
      if (failures.size >= failuresMax || now - failedAt > forgottenMs) failures.clear()
      failedAt = now
      const count = failures.get(id) ?? 0
      failures.set(id, count + 1)
      const awayMs = Math.max(awayMsMax, failures.size / triesPerMs)
      const max = error !== undefined && concernsAll(error) ? awayMs : retryMsMax
      return Math.min(max, retryMsMin * 2 ** Math.min(count, 30))
    },
    decided: (id) => void failures.delete(id),
  }
}
