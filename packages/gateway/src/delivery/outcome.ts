/**
 * Computes the next state of a notification from its provider's answer: delivered, failed, retried, or a dead letter.
 * Pure: the caller passes the time and the retry plan.
 */

import type { DeadCause, Move, Notification, Patch, Reason, TimelineEvent } from '../model.ts'
import { advance } from '../model.ts'
import type { SendResult } from '../ports.ts'
import type { Lease } from './pools/lease.ts'
import type { Retry } from './retry.ts'

/** A call to a provider that was made: an attempt (attempt.ts). */
export interface SentCall {
  readonly notification: Notification
  /** Events in memory that are not yet on record: it was queued, it was handed over. */
  readonly events: readonly TimelineEvent[]
  readonly lease: Pick<Lease, 'account' | 'pool'>
  /** The instant at which it counts in the limits. */
  readonly firedAt: number
}

/**
 * Computes the move of a notification after its call.
 * @param retry the retry plan for a call that neither delivered nor was refused for good
 */
export function moveAfterCall(call: SentCall, result: SendResult, retry: Retry, now: number): Move {
  const { notification, firedAt } = call
  switch (result.outcome) {
    case 'delivered': {
      const detail = result.providerMessageId ?? result.detail
      return advance(notification, pathTo('delivered', call, now, detail), doneBy(call, now))
    }
    case 'rejected':
      return advance(notification, pathTo('failed', call, now, result.detail), doneBy(call, now))
    case 'rate_limited': {
      if (result.endpoint !== undefined) return waitsForEndpoint(call, result, retry, now)
      // The account was rate limited, not the notification: this is no attempt of its own.
      const path = pathTo('queued', call, now, result.detail, 'provider_capacity')
      return advance(notification, path, { firedAt, dueAt: now })
    }
    case 'unknown':
      return call.lease.pool.provider.idempotent
        ? retried(call, result, retry, now)
        : dead(call, result, now, 'outcome_unknown', result.detail)
    case 'failed':
      return retried(call, result, retry, now)
  }
}

type Failed = Extract<SendResult, { readonly outcome: 'unknown' | 'failed' | 'rate_limited' }>

/**
 * Schedules it for when the recipient's endpoint accepts calls again: no attempt is counted, and the account stays
 * free.
 */
function waitsForEndpoint(call: SentCall, result: Failed, retry: Retry, now: number): Move {
  const { notification, firedAt } = call
  if (retry.kind !== 'later') return dead(call, result, now, 'attempts_exhausted', result.detail)
  const dueAt = Math.min(retry.at, notification.expiresAt ?? retry.at)
  const path = pathTo('scheduled', call, now, result.detail, 'provider_capacity')
  return advance(notification, path, { firedAt, dueAt })
}

/** Builds the timeline: events in memory, the account that carried it, and the result. */
function pathTo(
  status: TimelineEvent['status'],
  { notification, events, lease }: SentCall,
  now: number,
  detail: string | undefined,
  reason?: Reason,
): readonly TimelineEvent[] {
  const provider = lease.pool.provider.name
  const account = lease.account.id
  const attempt = notification.attempts + 1
  const path = events.map((event) =>
    event.status === 'sending' ? { at: event.at, status: event.status, provider, account, attempt } : event,
  )
  path.push({
    at: now,
    status,
    ...(reason === undefined ? undefined : { reason }),
    provider,
    account,
    attempt,
    ...(detail === undefined ? undefined : { detail }),
  })
  return path
}

function doneBy({ notification, firedAt }: SentCall, now: number): Patch {
  return { attempts: notification.attempts + 1, firedAt, dueAt: now }
}

function dead(
  call: SentCall,
  result: Failed,
  now: number,
  cause: DeadCause,
  detail: string | undefined,
): Move {
  const { notification } = call
  const dueAt = notification.expiresAt ?? Number.MAX_SAFE_INTEGER
  const patch = { ...doneBy(call, now), ...suspicion(call, result), dueAt }
  return advance(notification, pathTo('dead', call, now, detail, cause), patch)
}

/** Adds a suspect: a call that may have arrived counts in the limits, whatever becomes of its retry. */
function suspicion({ notification, firedAt }: SentCall, result: SendResult): Patch {
  if (!mayHaveArrived(result)) return {}
  return { suspects: [...(notification.suspects ?? []), firedAt] }
}

function retried(call: SentCall, result: Failed, retry: Retry, now: number): Move {
  const { notification } = call
  const { detail } = result
  const patch = { ...doneBy(call, now), ...suspicion(call, result) }
  switch (retry.kind) {
    case 'never':
      return dead(call, result, now, 'attempts_exhausted', detail)
    case 'no_budget':
      return dead(call, result, now, 'shed', `${detail}; the pool has repeated as much as it may`)
    case 'elsewhere':
      return advance(notification, pathTo('queued', call, now, detail, 'retry'), patch)
    case 'later': {
      // If it would expire before its retry, it is scheduled for its expiry instead.
      const dueAt = Math.min(retry.at, notification.expiresAt ?? retry.at)
      return advance(notification, pathTo('scheduled', call, now, detail, 'retry'), { ...patch, dueAt })
    }
  }
}

/** Tests if a retry may be a duplicate for the recipient: then the first call counts too. */
function mayHaveArrived(result: SendResult): boolean {
  return result.outcome === 'unknown' || (result.outcome === 'failed' && result.maybeDelivered === true)
}
