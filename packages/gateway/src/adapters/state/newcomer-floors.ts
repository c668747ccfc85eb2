/** Books newcomers of a subject behind those that move up there, though its limits admit them earlier. */
import type { SyncLimits } from '@sluice/limits'
import type { Clock, LimitRequest, Reservation } from '../../ports.ts'
import { termsOf } from './limit-terms.ts'
import { reserveInTurn } from './reserve-in-turn.ts'

/** Returns the request for an instant that is no earlier than the floor, of one that was admitted before it. */
export function behindFloor(request: LimitRequest, floor: number, now: number): LimitRequest {
  const { notBefore = now, horizonMs, rules } = request
  return {
    ...request,
    // From here on it waits, and is not refused by what those before it have taken.
    rules: rules.map((rule) => (rule.over === 'refuse' ? { ...rule, over: 'delay' } : rule)),
    notBefore: floor,
    ...(horizonMs === undefined ? {} : { horizonMs: Math.max(0, horizonMs - (floor - notBefore)) }),
  }
}

/** Merges the reservation before the floor, which was released, with the one behind it. */
export function mergeBehindFloor(
  request: LimitRequest,
  first: Reservation,
  { at, held, limit }: Reservation,
): Reservation {
  const { firstAt, refusedBy, rules } = first
  return {
    ...first,
    firstAt,
    refusedBy,
    rules,
    at,
    held,
    allowed: false,
    limit: limit ?? first.limit ?? request.rules[0]!.name,
  }
}

export interface NewcomerFloors {
  /** Reserves; a newcomer no earlier than the floor of its subject. */
  reserve(request: LimitRequest, id: string): Reservation
  /** No newcomer of the subject is booked before this instant, epoch ms; one that has passed ends it: false. */
  set(key: string, floor: number): boolean
  /** True if newcomers are booked behind a floor. */
  has(key: string): boolean
  /** Moves the floor of a subject to this instant, epoch ms, where it has an earlier one. */
  raise(key: string, floor: number): void
}

export function createNewcomerFloors(
  limits: Pick<SyncLimits, 'reserve' | 'preview' | 'fire' | 'cancel' | 'restore'>,
  clock: Pick<Clock, 'now'>,
): NewcomerFloors {
  /** By subject; as many as there are subjects in which some move up. */
  const floors = new Map<string, number>()

  return {
    reserve(request: LimitRequest, id: string): Reservation {
      const { subject, rules } = request
      if (request.inTurn === true) return reserveInTurn(limits, request, id, clock.now())
      const first = limits.reserve(subject.key, rules, { ...termsOf(request), id })
      const floor = floors.size === 0 || request.waited === true ? undefined : floors.get(subject.key)
      if (floor === undefined || !first.held || first.at >= floor || rules.length === 0) return first
      // The library computes the reports from its state when they are first read.
      void first.rules
      limits.cancel(subject.key, id)
      const behind = behindFloor(request, floor, clock.now())
      const second = limits.reserve(subject.key, behind.rules, { ...termsOf(behind), id })
      return mergeBehindFloor(request, first, second)
    },
    set(key, floor) {
      const isToCome = floor > clock.now()
      if (isToCome) floors.set(key, floor)
      else floors.delete(key)
      return isToCome
    },
    has: (key) => floors.has(key),
    raise(key, floor) {
      if (floor > (floors.get(key) ?? Number.POSITIVE_INFINITY)) floors.set(key, floor)
    },
  }
}
