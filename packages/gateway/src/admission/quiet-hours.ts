/**
 * Quiet and legal hours of a recipient as intervals. The intervals of one wall-clock rule in one time zone are equal for
 * all recipients there, so they are computed once a day and shared; only the spread after their end depends on the
 * notification.
 */
import { type ForbiddenInterval, forbiddenIntervals, isQuiet } from '@sluice/limits'
import type { Notification, Recipient } from '../model.ts'
import type { Policy, QuietRule } from '../policy/policy.ts'
import { spreadOffset } from '../policy/quiet.ts'
import type { Countable } from '../ports.ts'

/** The reasons for which notifications are stopped whatever their recipients prefer. */
export type HoldReason = 'held' | 'complaint_guard'
export type HoursReason = 'quiet_hours' | 'legal_hours' | HoldReason

/** The fields by which holds and the complaint guard select notifications. */
type Holdable = Pick<Notification, 'id' | 'tenant' | 'channel' | 'category' | 'priority'> &
  Partial<Pick<Notification, 'attempts'>>

/** The ends of what stops a notification now; undefined where nothing does. */
export interface Stops {
  /** The end of the holds of operators. */
  untilOf(notification: Holdable): number | undefined
  /** The instant until which the complaint guard stops it, an estimate. */
  guardedUntil(notification: Holdable): number | undefined
}

const noStops: Stops = { untilOf: () => undefined, guardedUntil: () => undefined }

/** Tests if a reason is that of a hold: when it ends, those who wait move up. */
export const isHoldReason = (reason: string | undefined): reason is HoldReason =>
  reason === 'held' || reason === 'complaint_guard'

export interface ForbiddenHours {
  /** Returns the end of what stops a notification: holds of operators, the complaint guard. Undefined where nothing does. */
  heldUntil(notification: Holdable): number | undefined
  /** Names the one of them that ends last. */
  heldBecause(notification: Holdable): HoldReason
  /** Tests if quiet or legal hours apply at any time. */
  hasHours(countable: Countable, recipient: Recipient | null): boolean
  /** Returns the forbidden intervals, covering at least `maxDelayMs` from `from`; undefined where there are none. */
  forbidden(
    countable: Countable & { readonly id: string },
    recipient: Recipient | null,
    from: number,
  ): readonly ForbiddenInterval[] | undefined
  /** Returns the reason why a time is forbidden: a hold, or the hours that last longest. Undefined where it is allowed. */
  reasonAt(
    countable: Countable & Holdable,
    recipient: Recipient | null,
    instant: number,
  ): HoursReason | undefined
  /** Returns the hours whose end, with the spread added, is this time. */
  reasonUntil(
    countable: Countable & { readonly id: string },
    recipient: Recipient | null,
    instant: number,
  ): HoursReason | undefined
}

const dayMs = 86_400_000
const rulesCachedMax = 2_000
/** Nearly all recipients have no preferences: they share this object. */
const noPreferences = {}

interface Covered {
  readonly from: number
  readonly to: number
  readonly intervals: readonly { readonly from: number; readonly to: number }[]
}

/**
 * @param aheadMs how far the wall clock is ahead of the process clock, ms
 * @param stops what stops notifications whatever their recipients prefer
 */
export function createForbiddenHours(
  policy: Policy,
  aheadMs: () => number = () => 0,
  stops: Stops = noStops,
): ForbiddenHours {
  const heldUntil: ForbiddenHours['heldUntil'] = (of) => laterOf(stops.untilOf(of), stops.guardedUntil(of))
  const heldBecause: ForbiddenHours['heldBecause'] = (of) =>
    (stops.guardedUntil(of) ?? 0) > (stops.untilOf(of) ?? 0) ? 'complaint_guard' : 'held'
  const cache = new Map<string, Covered>()

  function covering(rules: readonly QuietRule[], from: number): Covered {
    const key = rules.map(({ spec }) => `${spec.from}-${spec.to}@${spec.timeZone}`).join()
    const known = cache.get(key)
    if (known !== undefined && known.from <= from && from + policy.maxDelayMs <= known.to) return known
    if (cache.size >= rulesCachedMax) cache.clear()
    const start = Math.floor(from / dayMs) * dayMs - dayMs
    const spanMs = policy.maxDelayMs + 2 * dayMs
    const specs = rules.map((rule) => rule.spec)
    const covered = {
      from: start + dayMs,
      to: start + spanMs,
      intervals: forbiddenIntervals(specs, start, start + spanMs),
    }
    cache.set(key, covered)
    return covered
  }

  /** Converts wall-clock intervals to the process clock. */
  function toProcessClock(intervals: Covered['intervals']): Covered['intervals'] {
    const ahead = aheadMs()
    return ahead === 0 ? intervals : intervals.map(({ from, to }) => ({ from: from - ahead, to: to - ahead }))
  }

  const rulesOf = (countable: Countable, recipient: Recipient | null): readonly QuietRule[] => {
    const timeZone = countable.to.timeZone ?? recipient?.timeZone
    const phone = timeZone === undefined ? (countable.to.phone ?? recipient?.phone) : undefined
    if (timeZone === undefined && phone === undefined && recipient?.quietHours === undefined)
      return policy.quietFor(countable, noPreferences)
    return policy.quietFor(countable, {
      ...(timeZone === undefined ? {} : { timeZone }),
      ...(phone === undefined ? {} : { phone }),
      ...(recipient?.quietHours === undefined ? {} : { quietHours: recipient.quietHours }),
    })
  }

  const forbiddenHours: ForbiddenHours = {
    heldUntil,
    heldBecause,
    hasHours: (countable, recipient) => rulesOf(countable, recipient).length > 0,
    forbidden(countable, recipient, from) {
      const rules = rulesOf(countable, recipient)
      if (rules.length === 0) return undefined
      const intervals = toProcessClock(covering(rules, from + aheadMs()).intervals)
      if (policy.spreadMs === 0) return intervals
      return intervals.map((interval, index) => {
        // Never into the next forbidden hours: a break shorter than the spread is used as a whole.
        const openMs = (intervals[index + 1]?.from ?? Number.POSITIVE_INFINITY) - interval.to
        const offset = spreadOffset(countable.id, Math.min(policy.spreadMs, openMs))
        return { ...interval, resumeAt: interval.to + offset }
      })
    },
    reasonAt(countable, recipient, instant) {
      if ((heldUntil(countable) ?? instant) > instant) return heldBecause(countable)
      const rules = rulesOf(countable, recipient)
      if (rules.length === 0) return undefined
      const wall = instant + aheadMs()
      const holding = covering(rules, wall).intervals.find(({ from, to }) => from <= wall && wall < to)
      return holding && lastOf(rules, holding.to)
    },
    reasonUntil(countable, recipient, instant) {
      const ended = forbiddenHours
        .forbidden(countable, recipient, instant)
        ?.find(({ to, resumeAt = to }) => resumeAt === instant)
      return ended && lastOf(rulesOf(countable, recipient), ended.to + aheadMs())
    },
  }
  return forbiddenHours
}

/** Among hours that overlap or follow each other, the last ones (by the wall clock) are the reason. */
function lastOf(rules: readonly QuietRule[], end: number): HoursReason | undefined {
  const last = rules.filter(({ spec }) => isQuiet(end - 1, spec))
  return (last.find(({ reason }) => reason === 'quiet_hours') ?? last[0])?.reason
}

/** Returns the later of two instants, either of which may be absent. */
export function laterOf(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : Math.max(a, b)
}
