/** Merges what the limits of several subjects say of one notification. Pure. */
import type { Limit } from '@sluice/limits'
import type { LimitRequest, Reservation } from '../ports.ts'

/** Merges the reservations of several subjects: the latest time, held where each of them is. */
export function mergeReservations(reservations: readonly Reservation[]): Reservation {
  const at = Math.max(...reservations.map((reservation) => reservation.at))
  const latest = reservations.find((reservation) => reservation.at === at) ?? reservations[0]!
  return {
    ...latest,
    at,
    firstAt: Math.max(...reservations.map((reservation) => reservation.firstAt)),
    held: reservations.every((reservation) => reservation.held),
    allowed: reservations.every((reservation) => reservation.allowed),
    refusedBy: reservations.flatMap((reservation) => reservation.refusedBy),
    rules: reservations.flatMap((reservation) => reservation.rules),
  }
}

/** Returns the request from a later time on, with the same horizon and limits that only delay. */
export function moved(request: LimitRequest, notBefore: number): LimitRequest {
  const { horizonMs, rules } = request
  const passedMs = notBefore - (request.notBefore ?? notBefore)
  return {
    ...request,
    notBefore,
    rules: waitOnly(rules),
    ...(horizonMs === undefined ? {} : { horizonMs: Math.max(0, horizonMs - passedMs) }),
  }
}

const waitOnlyRules = new WeakMap<readonly Limit[], readonly Limit[]>()

/** Returns the limits with every refusal turned into a delay. */
export function waitOnly(rules: readonly Limit[]): readonly Limit[] {
  let waiting = waitOnlyRules.get(rules)
  if (waiting === undefined) {
    waiting = rules.some((rule) => rule.over === 'refuse')
      ? rules.map((rule) => (rule.over === 'refuse' ? { ...rule, over: 'delay' } : rule))
      : rules
    waitOnlyRules.set(rules, waiting)
  }
  return waiting
}
