/** The delays after which a notification is decided again that could not be decided. */
import type { Clock } from '../ports.ts'
import { retryDelayMs } from '../sleeper.ts'

export interface DecisionRetries {
  /** Counts a failure, and returns the delay until the next try, ms: it doubles with each. */
  next(id: string, error?: unknown): number
  /** Forgets the failures of one that was decided. */
  decided(id: string): void
}

export const retryMsMin = 500
/** Notifications whose failures are remembered; beyond this number all counts start at zero again. */
const failuresMax = 10_000
/** Behind the last failure, ms: what failed has been tried again by then, and what is still counted has ended another way. */
const forgottenMs = 120_000

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
      return retryDelayMs(retryMsMin, count, error, failures.size)
    },
    decided: (id) => void failures.delete(id),
  }
}
