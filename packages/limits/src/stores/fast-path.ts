/**
 * The fast path through a subject in memory, where nothing is booked and nothing lies in the future. Then a rule
 * admits when its N-th last instant has left the window, and admits a refused call when that one has: O(1) a rule.
 */
import { type Decision, lengthsWithin, nobody, Outcome, type Snapshot } from '../decision.ts'
import type { Plan, PlanRule } from '../plan.ts'
import type { Log } from '../rolling-window.ts'
import type { EventLog } from './event-log.ts'

interface Seated {
  /** The one event log of all streams of the plan at hand, where they share one. */
  readonly eventLog: EventLog | undefined
  /** Otherwise the event log of each. */
  readonly planLogs: readonly EventLog[]
}

/** The verdict of the rules on `now`. `unknown`: something is booked, in the future or in runs, and the general path decides. */
export type Standing = 'admits' | 'refuses' | 'unknown'

/** Asked of every call, so that it answers with no number: a number from function to function is an allocation. */
export function standingOf(plan: Plan, seated: Seated, weight: number, now: number): Standing {
  if (seated.eventLog !== undefined) return eventLogStanding(plan.rules, seated.eventLog, weight, now)
  const { planLogs } = seated
  let standing: Standing = 'admits'
  for (let index = 0; index < planLogs.length; index += 1) {
    const found = eventLogStanding(plan.rulesByStream[index]!, planLogs[index]!, weight, now)
    if (found === 'unknown') return found
    if (found === 'refuses') standing = found
  }
  return standing
}

export function eventLogStanding(
  rules: readonly PlanRule[],
  eventLog: EventLog,
  weight: number,
  now: number,
): Standing {
  const { instants } = eventLog
  const { length } = instants
  if (eventLog.isAhead || (length !== 0 && instants[length - 1]! > now)) return 'unknown'
  for (let index = 0; index < rules.length; index += 1) {
    const { max, windowMs } = rules[index]!
    const places = max - weight + 1
    if (places < 1 || (length >= places && instants[length - places]! + windowMs > now)) return 'refuses'
  }
  return 'admits'
}

function ruleInstant({ max, windowMs }: PlanRule, instants: Log, weight: number, now: number): number {
  const places = max - weight + 1
  if (places < 1) return Infinity
  return instants.length < places ? now : instants[instants.length - places]! + windowMs
}

/** The decision on a call that is admitted at once; to be made before its instants are inserted. */
export function admitted(now: number, fired: boolean, plan: Plan, weight: number, seated: Seated): Decision {
  return outcome(true, fired, now, undefined, nobody, plan, weight, seated, now)
}

/** The decision on a call that only asked, or was refused, and is not inserted; where the standing is known. */
export function answered(plan: Plan, weight: number, seated: Seated, now: number): Decision {
  let at = now
  let deciding: string | undefined
  let refusing: string[] | undefined
  for (const rule of plan.rules) {
    const { instants } = seated.eventLog ?? seated.planLogs[rule.stream]!
    const free = ruleInstant(rule, instants, weight, now)
    if (free <= now) continue
    refusing ??= []
    if (!refusing.includes(rule.limit)) refusing.push(rule.limit)
    if (free <= at) continue
    at = free
    deciding = rule.limit
  }
  return outcome(false, false, at, deciding, refusing ?? nobody, plan, weight, seated, now)
}

function outcome(
  held: boolean,
  fired: boolean,
  at: number,
  limit: string | undefined,
  refusedBy: readonly string[],
  plan: Plan,
  weight: number,
  seated: Seated,
  now: number,
): Decision {
  const { eventLog } = seated
  const log = eventLog === undefined ? snapshotOf(seated.planLogs) : eventLog.instants
  const length = eventLog === undefined ? lengthsWithin : eventLog.instants.length
  return new Outcome(
    at <= now,
    held,
    fired,
    at,
    at - now,
    limit,
    now,
    refusedBy,
    nobody,
    plan,
    weight,
    log,
    length,
  )
}

function snapshotOf(planLogs: readonly EventLog[]): Snapshot {
  const snapshot: (Log | number)[] = []
  for (const { instants } of planLogs) snapshot.push(instants, instants.length)
  return snapshot
}
