/**
 * The forbidden hours of a recipient as intervals. The intervals of one wall-clock rule in one time zone are the same
 * for everybody there, so they are computed once a day and shared; only the spreading over the time after their
 * end is a notification's own.
 */
import { type ForbiddenInterval, forbiddenIntervals, isQuiet } from '@sluice/limits'
import type { Recipient } from '../model.ts'
import type { Policy, QuietRule } from '../policy/policy.ts'
import { spreadOffset } from '../policy/spread.ts'
import type { Countable } from '../ports.ts'

export type HoursReason = 'quiet_hours' | 'legal_hours'

export interface ForbiddenHours {
  /** Undefined where nothing is forbidden. Covers at least `maxDelayMs` from `from`. */
  forbidden(
    reservationRequest: Countable & { readonly id: string },
    recipient: Recipient | null,
    from: number,
  ): readonly ForbiddenInterval[] | undefined
  /** Why an instant is forbidden: the hours that hold longest from there. Undefined where it is not. */
  reasonAt(
    reservationRequest: Countable,
    recipient: Recipient | null,
    instant: number,
  ): HoursReason | undefined
  /** Which hours end with this instant, at the place that the spread gives. */
  reasonUntil(
    reservationRequest: Countable & { readonly id: string },
    recipient: Recipient | null,
    instant: number,
  ): HoursReason | undefined
}

const dayMs = 86_400_000
const rulesCachedMax = 2_000
/** Of whom nothing is known: nearly everybody, so that they share one. */
const nobody = {}

interface Covered {
  readonly from: number
  readonly to: number
  readonly intervals: readonly { readonly from: number; readonly to: number }[]
}

/** @param aheadMs how far the wall clock, by which people live, is ahead of the line of the instants */
export function createForbiddenHours(policy: Policy, aheadMs: () => number = () => 0): ForbiddenHours {
  const cache = new Map<string, Covered>()
  const spanMs = policy.maxDelayMs + 2 * dayMs

  function covering(rules: readonly QuietRule[], from: number): Covered {
    const key = rules.map(({ spec }) => `${spec.from}-${spec.to}@${spec.timeZone}`).join()
    const known = cache.get(key)
    if (known !== undefined && known.from <= from && from + policy.maxDelayMs <= known.to) return known
    if (cache.size >= rulesCachedMax) cache.clear()
    const start = Math.floor(from / dayMs) * dayMs - dayMs
    const specs = rules.map((rule) => rule.spec)
    const covered = {
      from: start + dayMs,
      to: start + spanMs,
      intervals: forbiddenIntervals(specs, start, start + spanMs),
    }
    cache.set(key, covered)
    return covered
  }

  /** Intervals of the wall clock on the line of the process. */
  function onLine(intervals: Covered['intervals']): Covered['intervals'] {
    const ahead = aheadMs()
    return ahead === 0 ? intervals : intervals.map(({ from, to }) => ({ from: from - ahead, to: to - ahead }))
  }

  const rulesOf = (reservationRequest: Countable, recipient: Recipient | null): readonly QuietRule[] => {
    const timeZone = reservationRequest.to.timeZone ?? recipient?.timeZone
    const phone = timeZone === undefined ? (reservationRequest.to.phone ?? recipient?.phone) : undefined
    if (timeZone === undefined && phone === undefined && recipient?.quietHours === undefined)
      return policy.quietFor(reservationRequest, nobody)
    return policy.quietFor(reservationRequest, {
      ...(timeZone === undefined ? {} : { timeZone }),
      ...(phone === undefined ? {} : { phone }),
      ...(recipient?.quietHours === undefined ? {} : { quietHours: recipient.quietHours }),
    })
  }

  const forbiddenHours: ForbiddenHours = {
    forbidden(reservationRequest, recipient, from) {
      const rules = rulesOf(reservationRequest, recipient)
      if (rules.length === 0) return undefined
      const intervals = onLine(covering(rules, from + aheadMs()).intervals)
      if (policy.spreadMs === 0) return intervals
      return intervals.map((interval, index) => {
        // Never into the next forbidden hours: of a break shorter than the spread all of it is used.
        const openMs = (intervals[index + 1]?.from ?? Number.POSITIVE_INFINITY) - interval.to
        const offset = spreadOffset(reservationRequest.id, Math.min(policy.spreadMs, openMs))
        return { ...interval, resumeAt: interval.to + offset }
      })
    },
    reasonAt(reservationRequest, recipient, instant) {
      const rules = rulesOf(reservationRequest, recipient)
      if (rules.length === 0) return undefined
      const wall = instant + aheadMs()
      const holding = covering(rules, wall).intervals.find(({ from, to }) => from <= wall && wall < to)
      return holding && lastOf(rules, holding.to)
    },
    reasonUntil(reservationRequest, recipient, instant) {
      const ended = forbiddenHours
        .forbidden(reservationRequest, recipient, instant)
        ?.find(({ to, resumeAt = to }) => resumeAt === instant)
      return ended && lastOf(rulesOf(reservationRequest, recipient), ended.to + aheadMs())
    },
  }
  return forbiddenHours
}

/** Of hours that overlap or follow each other, those that hold to the end, by the wall clock, gave it. */
function lastOf(rules: readonly QuietRule[], end: number): HoursReason | undefined {
  const last = rules.filter(({ spec }) => isQuiet(end - 1, spec))
  return (last.find(({ reason }) => reason === 'quiet_hours') ?? last[0])?.reason
}
