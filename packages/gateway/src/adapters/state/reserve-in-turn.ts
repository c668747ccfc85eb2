/**
 * Reserves for one whose instant has come: as at `fire`, only what has left stands in its way. Reserved against those that
 * wait behind it, a moment of lateness puts it behind all of them.
 */
import type { SyncLimits } from '@sluice/limits'
import type { LimitRequest, Reservation } from '../../ports.ts'
import { releaseOf } from './limit-terms.ts'

/** Makes a reservation of what `fire` has decided, whose count was taken back. */
export function reservationInTurn(request: LimitRequest, decision: Reservation, now: number): Reservation {
  const { notBefore = 0, horizonMs = Number.POSITIVE_INFINITY } = request
  const { fired, at, rules } = decision
  const held = Number.isFinite(at) && at - Math.max(now, notBefore) <= horizonMs
  return {
    ...decision,
    rules: fired ? rules.map((row) => ({ ...row, remaining: row.remaining + 1 })) : rules,
    fired: false,
    held,
    allowed: held && at <= now,
  }
}

/** Fires, takes the count back and reserves, in one turn of the event loop: nobody sees that it counted. */
export function reserveInTurn(
  limits: Pick<SyncLimits, 'preview' | 'fire' | 'cancel' | 'restore'>,
  request: LimitRequest,
  id: string,
  now: number,
): Reservation {
  const { subject, rules } = request
  const known = limits.preview(subject.key, rules, { id })
  if (known.fired) return known
  const reservation = reservationInTurn(request, limits.fire(subject.key, id, rules, releaseOf(request)), now)
  limits.cancel(subject.key, id)
  if (!reservation.held) return reservation
  const streams = rules.map((rule) => rule.stream)
  limits.restore(subject.key, [{ id, at: reservation.at, fired: false, streams }])
  return reservation
}
