/** Books newcomers of a subject behind those that move up there, though its limits admit them earlier. */
import type { SyncLimits } from '@sluice/limits'
import type { Clock, LimitRequest, Reservation } from '../../ports.ts'
import { termsOf } from './limit-terms.ts'

export interface NewcomerFloors {
  /** Reserves; a newcomer no earlier than the floor of its subject. */
  reserve(request: LimitRequest, id: string): Reservation
  /** No newcomer of the subject is booked before this instant, epoch ms; one that has passed ends it. */
  set(key: string, floor: number): void
}

export function createNewcomerFloors(
  limits: Pick<SyncLimits, 'reserve' | 'cancel'>,
  clock: Pick<Clock, 'now'>,
): NewcomerFloors {
  /** By subject; as many as there are subjects that are settled. */
  const floors = new Map<string, number>()

  return {
    reserve(request: LimitRequest, id: string): Reservation {
      const { subject, rules, notBefore = clock.now() } = request
      const first = limits.reserve(subject.key, rules, { ...termsOf(request), id })
      const floor = floors.size === 0 || request.waited === true ? undefined : floors.get(subject.key)
      if (floor === undefined || !first.held || first.at >= floor || rules.length === 0) return first
      // The library computes the reports from its state when they are first read.
      const { refusedBy, firstAt } = first
      const reports = [...first.rules]
      limits.cancel(subject.key, id)
      const { horizonMs } = request
      const { at, held, limit } = limits.reserve(
        subject.key,
        // From here on it waits, and is not refused by what those before it have taken.
        rules.map((rule) => (rule.over === 'refuse' ? { ...rule, over: 'delay' } : rule)),
        {
          ...termsOf(request),
          id,
          notBefore: floor,
          ...(horizonMs === undefined ? {} : { horizonMs: Math.max(0, horizonMs - (floor - notBefore)) }),
        },
      )
      return {
        ...first,
        firstAt,
        refusedBy,
        rules: reports,
        at,
        held,
        allowed: false,
        limit: limit ?? first.limit ?? rules[0]!.name,
      }
    },
    set(key, floor) {
      if (floor > clock.now()) floors.set(key, floor)
      else floors.delete(key)
    },
  }
}
