/**
 * What a provider's answer makes of a notification: delivered, failed, tried again, or a dead letter. Pure: the
 * caller says what time it is and what chance gave.
 */

import type { Attempted } from '../doors.ts'
import type { DeadCause, Move, TimelineEvent } from '../model.ts'
import { advance } from '../model.ts'
import type { SendResult } from '../ports.ts'

export function settle(attempted: Attempted): Move {
  const { notification, result, now, firedAt } = attempted
  const attempts = notification.attempts + 1
  const where = { provider: attempted.provider, account: attempted.account, attempt: attempts }
  const path = attempted.events.map((event) => (event.status === 'sending' ? { ...event, ...where } : event))
  const event = (
    status: TimelineEvent['status'],
    detail: string | undefined,
    reason?: TimelineEvent['reason'],
  ): TimelineEvent => ({
    at: now,
    status,
    ...(reason === undefined ? {} : { reason }),
    ...where,
    ...(detail === undefined ? {} : { detail }),
  })
  const done = { attempts, firedAt, dueAt: now }

  switch (result.outcome) {
    case 'delivered': {
      const detail = result.providerMessageId ?? result.detail
      return advance(notification, [...path, event('delivered', detail)], done)
    }
    case 'rejected':
      return advance(notification, [...path, event('failed', result.detail)], done)
    case 'rate_limited':
      // The account was asked too much, not the notification: this is no attempt of its own.
      return advance(notification, [...path, event('queued', result.detail, 'provider_capacity')], {
        firedAt,
        dueAt: now,
      })
    case 'unknown':
      if (!attempted.idempotent) return dead('outcome_unknown', result.detail)
      return again()
    case 'failed':
      return again()
  }

  function dead(cause: DeadCause, detail: string | undefined): Move {
    const dueAt = notification.expiresAt ?? Number.MAX_SAFE_INTEGER
    return advance(notification, [...path, event('dead', detail, cause)], { ...done, ...suspicion(), dueAt })
  }

  /** What may have arrived counts, whatever becomes of its repetition. */
  function suspicion() {
    if (!mayHaveArrived(result)) return {}
    return { suspects: [...(notification.suspects ?? []), firedAt] }
  }

  function again(): Move {
    const detail = 'detail' in result ? result.detail : undefined
    const { retry } = attempted
    switch (retry.kind) {
      case 'never':
        return dead('attempts_exhausted', detail)
      case 'no_budget':
        return dead('shed', `${detail ?? 'failed'}; the pool has repeated as much as it may`)
      case 'elsewhere':
        return advance(notification, [...path, event('queued', detail, 'retry')], { ...done, ...suspicion() })
      case 'later':
        return advance(notification, [...path, event('scheduled', detail, 'retry')], {
          ...done,
          ...suspicion(),
          // What would be tried only after its end waits for its end.
          dueAt: Math.min(retry.at, notification.expiresAt ?? retry.at),
        })
    }
  }
}

/** Whether a repetition may be a second one for the person: then the first counts too. */
export function mayHaveArrived(result: SendResult): boolean {
  return result.outcome === 'unknown' || (result.outcome === 'failed' && result.unheard === true)
}
