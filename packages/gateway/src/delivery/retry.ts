/**
 * Decides if, when and by which account a failed call is retried. The first retry goes to another account at once,
 * where there is one; later retries give the provider time (backoff). The pool's retry budget (retry-budget.ts)
 * bounds retries; a recipient fault needs no place in it.
 */

import type { Notification } from '../model.ts'
import type { Random, SendResult } from '../ports.ts'
import type { EndpointWait } from './endpoints.ts'
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

/** An attempt that has a lease and makes no call yet. */
interface LeasedAttempt {
  readonly notification: Notification
  lease: Lease
}

export interface Retries {
  /** Decides the retry of a notification whose call had this result. */
  retryOf(route: Route, notification: Notification, result: SendResult, lease: Lease, now: number): Retry
  /**
   * Exchanges the lease of the account that has just failed the notification for another one's, if there is another.
   * Returns until when it waits where that one has no place yet: it may have one in a moment, and an account that several
   * processes call has tokens only a moment after they were wanted.
   */
  exchangeLease(route: Route, attempt: LeasedAttempt, now: number): EndpointWait | undefined
  /** Counts a call that is about to be made: a first one for the budget; a retry takes no account's turn. */
  called(notification: Notification, lease: Lease, now: number): void
  /** Forgets the notification: it is not retried after all. */
  forget(id: string): void
}

interface Failed {
  readonly account: string
  /** The instant from which it looks for another account. */
  readonly from: number
  /** It waits for another account until then. */
  readonly waitsUntil: number
  /** The lease of another account, which had it without a turn. */
  exchanged?: Lease
}

/**
 * Failed accounts remembered. Beyond it, the oldest entry is dropped, and that retry may meet the same account again.
 */
const rememberedMax = 10_000
/** A retry waits so long for a place of another account, ms, and at least as long as the failed account has asked for. */
const waitMsMax = 1_000
/** It looks again soon at first, while a token of the other one that it has asked for is good, and ever more rarely, ms. */
const lookAgainMs = { first: 10, last: 200 }
const never: Retry = { kind: 'never' }

export function createRetries({ random }: { readonly random: Pick<Random, 'next'> }): Retries {
  /** Account that has just failed a notification, by notification id: another one should carry the retry. */
  const failedBy = new Map<string, Failed>()

  function remember(id: string, failed: Failed): void {
    failedBy.delete(id)
    failedBy.set(id, failed)
    if (failedBy.size > rememberedMax) failedBy.delete(failedBy.keys().next().value!)
  }

  return {
    retryOf(route, notification, result, lease, now) {
      const { id, attempts } = notification
      const { retry, budget, provider } = lease.pool
      const { outcome } = result
      const isRecipientsFault = isRecipientFault(result)
      if (outcome === 'rate_limited' && isRecipientsFault) {
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
      if (!isRecipientsFault && !budget.take(now)) return { kind: 'no_budget' }
      const account = lease.account.id
      const isElsewhere = mayCarryElsewhere(result) && route.hasOther(lease, now)
      const retryAfterMs = outcome === 'failed' ? parseRetryAfter(result.retryAfter, now, 0).ms : 0
      if (isElsewhere && attempts === 0) {
        remember(id, { account, from: now, waitsUntil: now + Math.max(waitMsMax, retryAfterMs) })
        return { kind: 'elsewhere' }
      }
      const chance = random.next()
      const waitMs = patience
        ? patientMs(patience, attempts + 1, chance)
        : backoffMs(retry, attempts + 1, chance)
      const at = now + Math.max(waitMs, retryAfterMs)
      if (isElsewhere) remember(id, { account, from: at, waitsUntil: at + waitMsMax })
      return { kind: 'later', at }
    },

    exchangeLease(route, attempt, now) {
      const { notification, lease } = attempt
      const failed = failedBy.get(notification.id)
      if (failed?.account !== lease.account.id) return undefined
      const other = route.exchange(lease, now)
      if (other !== lease) {
        lease.pool.keepTurn(lease)
        failed.exchanged = other
        attempt.lease = other
        return undefined
      }
      if (now >= failed.waitsUntil || !route.hasOther(lease, now)) return undefined
      const { first, last } = lookAgainMs
      const waitMs = Math.min(last, Math.max(first, (now - failed.from) / 4))
      return { goes: false, origin: failed.account, at: Math.min(failed.waitsUntil, now + waitMs) }
    },

    called({ id, attempts }, lease, now) {
      if (attempts === 0) lease.pool.budget.sent(now)
      else if (failedBy.get(id)?.exchanged !== lease) lease.pool.keepTurn(lease)
      failedBy.delete(id)
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
