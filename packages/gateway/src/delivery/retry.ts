/**
 * Decides if, when and by which account a failed call is retried. The first retry goes to another account at once,
 * where there is one; later retries give the provider time (backoff). The pool's retry budget (retry-budget.ts)
 * bounds retries; a recipient fault needs no place in it.
 */

import type { Notification } from '../model.ts'
import type { Random, SendResult } from '../ports.ts'
import { isRecipientFault, mayCarryElsewhere } from './fault.ts'
import type { Lease } from './pools/lease.ts'
import type { Route } from './pools/route.ts'
import { backoffMs, defaultBlockMs, parseRetryAfter, patientMs } from './retry-policy.ts'

export type Retry =
  /** Retry over another account, as soon as one is free. */
  | { readonly kind: 'elsewhere' }
  | { readonly kind: 'later'; readonly at: number }
  /** No retry: the attempts are used up. */
  | { readonly kind: 'never' }
  /** No retry now: the pool's retry budget is spent; the notification returns when there is room. */
  | { readonly kind: 'no_budget' }

export interface Retries {
  /** Decides the retry of a notification whose call had this result. */
  retryOf(route: Route, notification: Notification, result: SendResult, lease: Lease, now: number): Retry
  /**
   * Chooses the lease for a notification: not of the account that has just failed it, if there is another. A retry
   * takes no account's turn.
   */
  suited(route: Route, notification: Notification, lease: Lease, now: number): Lease
  /** Forgets the notification: it is not retried after all. */
  forget(id: string): void
}

/**
 * Failed accounts remembered. Beyond it, the oldest entry is dropped, and that retry may meet the same account again.
 */
const rememberedMax = 10_000
const never: Retry = { kind: 'never' }

export function createRetries({ random }: { readonly random: Pick<Random, 'next'> }): Retries {
  /** Account that has just failed a notification, by notification id: another one should carry the retry. */
  const failedBy = new Map<string, string>()

  function remember(id: string, account: string): void {
    failedBy.delete(id)
    failedBy.set(id, account)
    if (failedBy.size > rememberedMax) failedBy.delete(failedBy.keys().next().value!)
  }

  return {
    retryOf(route, notification, result, lease, now) {
      const { id, attempts } = notification
      const { retry, budget, provider } = lease.pool
      const { outcome } = result
      const isRecipients = isRecipientFault(result)
      if (outcome === 'rate_limited' && isRecipients) {
        if (now - triedSince(notification, now) >= retry.outage.forMs) return never
        return { kind: 'later', at: now + parseRetryAfter(result.retryAfter, now, defaultBlockMs).ms }
      }
      const repeats = outcome === 'failed' || (outcome === 'unknown' && provider.idempotent)
      if (!repeats) return never
      const kind = outcome === 'failed' ? result.retry : undefined
      const patience = kind && retry[kind]
      const { attemptsMax = Number.POSITIVE_INFINITY } = patience ?? retry
      const isLate = patience !== undefined && now - triedSince(notification, now) >= patience.forMs
      if (isLate || attempts + 1 >= attemptsMax) return never
      if (!isRecipients && !budget.take(now)) return { kind: 'no_budget' }
      if (mayCarryElsewhere(result) && route.hasOther(lease, now)) {
        remember(id, lease.account.id)
        if (attempts === 0) return { kind: 'elsewhere' }
      }
      const chance = random.next()
      const waitMs = patience
        ? patientMs(patience, attempts + 1, chance)
        : backoffMs(retry, attempts + 1, chance)
      const retryAfterMs = outcome === 'failed' ? parseRetryAfter(result.retryAfter, now, 0).ms : 0
      return { kind: 'later', at: now + Math.max(waitMs, retryAfterMs) }
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

/**
 * Finds the instant since when a notification has been tried: its first call, or the first time it waited for a
 * recipient's endpoint. A truncated timeline keeps its beginning, and so this instant.
 */
export function triedSince({ timeline }: Pick<Notification, 'timeline'>, now: number): number {
  const first = timeline.find(
    ({ status, reason }) =>
      status === 'sending' || (status === 'scheduled' && reason === 'provider_capacity'),
  )
  return first?.at ?? now
}
