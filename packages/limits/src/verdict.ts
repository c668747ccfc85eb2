/**
 * Evaluates the rules of a plan at an instant, given the logs of its streams: which admit, which refuse, which decided.
 */
import { type Decision, decisionOf, type Facts, type RuleRow } from './decision.ts'
import type { Plan } from './plan.ts'
import { type AnyLog, admits, givesWayAt } from './rolling-window.ts'
import type { Kind } from './store.ts'

/** Tells for each rule of the plan, in its order, whether it admits `weight` more at an instant. */
export function admitsAt(plan: Plan, logs: readonly AnyLog[], weight: number, instant: number): boolean[] {
  return plan.rules.map(({ stream, max, windowMs }) => admits(logs[stream]!, max, windowMs, weight, instant))
}

/** The first limit that refuses a reservation as a whole. */
export function refuserOf(plan: Plan, admits: readonly boolean[]): string | undefined {
  return plan.refuses ? plan.rules.find((rule, index) => rule.refuse && !admits[index])?.limit : undefined
}

/** The first limit that refuses just before the instant and admits at it; undefined where something else decided. */
export function decidingLimit(
  plan: Plan,
  logs: readonly AnyLog[],
  weight: number,
  at: number,
): string | undefined {
  return plan.rules.find(({ stream, max, windowMs }) => givesWayAt(logs[stream]!, max, windowMs, weight, at))
    ?.limit
}

/** Facts that a store has found out about a question; the rest of its decision follows from them. */
export interface Found extends Omit<Facts, 'allowed' | 'held' | 'fired' | 'moved' | 'refusedBy'> {
  /** The id was known, so that it gets the answer that it got before; and whether it had gone already. */
  readonly repeated: boolean
  readonly ownFired: boolean
  /** It counts now. */
  readonly countsNow: boolean
  /** It is booked for `at`. */
  readonly booked: boolean
  /** It had gone already, and counts now instead. */
  readonly moved: boolean
}

/** Draws up the decision on a question whose rows are known. */
export function settle(kind: Kind, firm: boolean, found: Found, rows: readonly RuleRow[]): Decision {
  const { repeated, ownFired, countsNow, booked } = found
  const { moved, at, now, limit, firstAt, evicted, blockedUntil } = found
  const books = kind === 'reserve' || kind === 'preview'
  const held = kind !== 'check' && (repeated || countsNow || booked)
  const allowed = books ? held && at <= now : kind === 'check' ? at === now : repeated || countsNow
  const fired = held && (countsNow || (repeated ? ownFired : books && firm))
  const refusedBy: string[] = []
  for (const row of rows) if (!row.admits && !refusedBy.includes(row.limit)) refusedBy.push(row.limit)
  return decisionOf(
    { allowed, held, fired, moved, at, now, limit, firstAt, refusedBy, evicted, blockedUntil },
    rows,
  )
}
