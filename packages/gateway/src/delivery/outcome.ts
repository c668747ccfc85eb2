/**
 * What a provider's answer makes of a notification: delivered, failed, tried again, or a dead letter. Pure: the
 * caller says what time it is and what chance gave.
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
      // The account was asked too much, not the notification: this is no attempt of its own.
      const path = pathTo(attempted, 'queued', result.detail, 'provider_capacity')
      return advance(notification, path, { firedAt, dueAt: now })
    }
    case 'unknown':
      if (!attempted.idempotent) return dead(attempted, 'outcome_unknown', result.detail)
      return again(attempted, result.detail)
    case 'failed':
      return again(attempted, result.detail)
  }
}

/** The recipient's own endpoint was asked too much: no attempt either, and the account is free for others. */
function waitsForEndpoint(attempted: Attempted, detail: string): Move {
  const { notification, retry, firedAt } = attempted
  if (retry.kind !== 'later') return dead(attempted, 'attempts_exhausted', detail)
  const dueAt = Math.min(retry.at, notification.expiresAt ?? retry.at)
  return advance(notification, pathTo(attempted, 'scheduled', detail, 'provider_capacity'), {
    firedAt,
    dueAt,
  })
}

/** What memory knows, by whom it was carried, and what came of it. */
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

/** What may have arrived counts, whatever becomes of its repetition. */
function suspicion({ notification, result, firedAt }: Attempted): Patch {
  if (!mayHaveArrived(result)) return {}
  return { suspects: [...(notification.suspects ?? []), firedAt] }
}

function again(attempted: Attempted, detail: string): Move {
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
      // What would be tried only after its end waits for its end.
      const dueAt = Math.min(retry.at, notification.expiresAt ?? retry.at)
      return advance(notification, pathTo(attempted, 'scheduled', detail, 'retry'), { ...patch, dueAt })
    }
  }
}

/** Whether a repetition may be a second one for the recipient: then the first counts too. */
export function mayHaveArrived(result: SendResult): boolean {
  return result.outcome === 'unknown' || (result.outcome === 'failed' && result.maybeDelivered === true)
}
