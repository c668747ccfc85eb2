/**
 * Whether, when and by whom a failed call is repeated. The first repetition is another account's, at once, where
 * there is one; from then on it is the provider that needs time. What repetitions a pool may make at all its budget
 * says (retry-budget.ts).
 */
import type { Retry } from '../doors.ts'
import type { Notification } from '../model.ts'
import type { Random, SendResult } from '../ports.ts'
import type { Lease } from './lease.ts'
import { backoffMs } from './retry.ts'
import type { Route } from './route.ts'

export interface Repetitions {
  /** What becomes of a notification whose call came to this, if it is repeated. */
  retryOf(route: Route, notification: Notification, result: SendResult, lease: Lease, now: number): Retry
  /**
   * The lease for a notification: not of the account that has just failed it, if there is another one. A repetition
   * takes no account's turn.
   */
  suited(route: Route, notification: Notification, lease: Lease, now: number): Lease
  /** It is not repeated after all. */
  forget(id: string): void
}

const never: Retry = { kind: 'never' }

export function createRepetitions({ random }: { readonly random: Pick<Random, 'next'> }): Repetitions {
  /** Accounts that have just failed a notification: another one is to carry it. */
  const failedBy = new Map<string, string>()

  return {
    retryOf(route, { id, attempts }, result, lease, now) {
      const { retry, budget, provider } = lease.pool
      const { outcome } = result
      const repeats = outcome === 'failed' || (outcome === 'unknown' && provider.idempotent)
      if (!repeats || attempts + 1 >= retry.attemptsMax) return never
      const blameless = outcome === 'failed' && result.blameless === true
      if (!blameless && !budget.take(now)) return { kind: 'no_budget' }
      if (attempts === 0 && !blameless && route.hasOther(lease, now)) {
        failedBy.set(id, lease.account.id)
        return { kind: 'elsewhere' }
      }
      return { kind: 'later', at: now + backoffMs(retry, attempts + 1, random.next()) }
    },

    suited(route, { id, attempts }, lease, now) {
      if (attempts === 0) {
        lease.pool.budget.sent(now)
        return lease
      }
      const failed = failedBy.get(id)
      failedBy.delete(id)
      lease.pool.keepTurn(lease)
      return failed === lease.account.id ? route.exchange(lease, now) : lease
    },

    forget: (id) => failedBy.delete(id),
  }
}
