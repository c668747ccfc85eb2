/**
 * Computes the next state of a notification from its provider's answer: delivered, failed, retried, or a dead letter.
 * Pure: the caller passes the time and the random number.
 */

import type { DeadCause, Move, Patch, Reason, TimelineEvent } from '../model.ts'
import { advance } from '../model.ts'
import type { SendResult } from '../ports.ts'
import type { Attempted } from '../stages.ts'

export function settle(attempted: Attempted): Move {
  const { notification, result, now, firedAt } = attempted
  switch (result.outcome) {
    case 'delivered': {
      const detail = result.providerMessageId ?? result.detail
      return advance(notification, pathTo(attempted, 'delivered', detail), doneBy(attempted))
    }
    case 'rejected':
      return advance(notification, pathTo(attempted, 'failed', result.detail), doneBy(attempted))
    case 'rate_limited': {
      if (result.endpoint !== undefined) return waitsForEndpoint(attempted, result.detail)
      // The account was rate limited, not the notification: this is no attempt of its own.
      const path = pathTo(attempted, 'queued', result.detail, 'provider_capacity')
      return advance(notification, path, { firedAt, dueAt: now })
    }
    case 'unknown':
      if (!attempted.idempotent) return dead(attempted, 'outcome_unknown', result.detail)
      return retried(attempted, result.detail)
    case 'failed':
      return retried(attempted, result.detail)
  }
}

/**
 * Schedules it for when the recipient's endpoint accepts calls again: no attempt is counted, and the account stays
 * free.
 */
function waitsForEndpoint(attempted: Attempted, detail: string): Move {
  const { notification, retry, firedAt } = attempted
  if (retry.kind !== 'later') return dead(attempted, 'attempts_exhausted', detail)
  const dueAt = Math.min(retry.at, notification.expiresAt ?? retry.at)
  return advance(notification, pathTo(attempted, 'scheduled', detail, 'provider_capacity'), {
    firedAt,
    dueAt,
  })
}

/** Builds the timeline: events in memory, the account that carried it, and the result. */
function pathTo(
  attempted: Attempted,
  status: TimelineEvent['status'],
  detail: string | undefined,
  reason?: Reason,
): readonly TimelineEvent[] {
  const { provider, account, now, notification } = attempted
  const attempt = notification.attempts + 1
  const path = attempted.events.map((event) =>
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

function doneBy({ notification, firedAt, now }: Attempted): Patch {
  return { attempts: notification.attempts + 1, firedAt, dueAt: now }
}

function dead(attempted: Attempted, cause: DeadCause, detail: string | undefined): Move {
  const { notification } = attempted
  const dueAt = notification.expiresAt ?? Number.MAX_SAFE_INTEGER
  const patch = { ...doneBy(attempted), ...suspicion(attempted), dueAt }
  return advance(notification, pathTo(attempted, 'dead', detail, cause), patch)
}

/** Adds a suspect: a call that may have arrived counts in the limits, whatever becomes of its retry. */
function suspicion({ notification, result, firedAt }: Attempted): Patch {
  if (!mayHaveArrived(result)) return {}
  return { suspects: [...(notification.suspects ?? []), firedAt] }
}

function retried(attempted: Attempted, detail: string): Move {
  const { notification, retry } = attempted
  const patch = { ...doneBy(attempted), ...suspicion(attempted) }
  switch (retry.kind) {
    case 'never':
      return dead(attempted, 'attempts_exhausted', detail)
    case 'no_budget':
      return dead(attempted, 'shed', `${detail}; the pool has repeated as much as it may`)
    case 'elsewhere':
      return advance(notification, pathTo(attempted, 'queued', detail, 'retry'), patch)
    case 'later': {
      // If it would expire before its retry, it is scheduled for its expiry instead.
      const dueAt = Math.min(retry.at, notification.expiresAt ?? retry.at)
      return advance(notification, pathTo(attempted, 'scheduled', detail, 'retry'), { ...patch, dueAt })
    }
  }
}

/** Tests if a retry may be a duplicate for the recipient: then the first call counts too. */
function mayHaveArrived(result: SendResult): boolean {
  return result.outcome === 'unknown' || (result.outcome === 'failed' && result.maybeDelivered === true)
}
