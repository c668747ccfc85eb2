/**
 * The quick way through a subject in memory, where nothing is booked and nothing lies in the future. Then a rule
 * admits when its N-th last instant has left the window, and what it refuses it admits when that one has: O(1) a rule.
 */
import { type Decision, lengthsWithin, nobody, Outcome, type Snapshot } from '../decision.ts'
import type { Plan, PlanRule } from '../plan.ts'
import type { Log } from '../rolling-window.ts'
import type { Lane } from './lane.ts'

interface Seated {
  /** The one lane of all streams of the plan at hand, where they share one. */
  readonly lane: Lane | undefined
  /** Else the lane of each. */
  readonly seats: readonly Lane[]
}

/** What the rules say to `now`; `unknown`: something is booked, in the future or in runs, and the general way must be gone. */
export type Standing = 'admits' | 'refuses' | 'unknown'

/** Asked of every call, so that it answers with no number: a number from function to function is an allocation. */
export function standingOf(plan: Plan, seated: Seated, weight: number, now: number): Standing {
  if (seated.lane !== undefined) return laneStanding(plan.rules, seated.lane, weight, now)
  const { seats } = seated
  let standing: Standing = 'admits'
  for (let index = 0; index < seats.length; index += 1) {
    const found = laneStanding(plan.rulesByStream[index]!, seats[index]!, weight, now)
    if (found === 'unknown') return found
    if (found === 'refuses') standing = found
  }
  return standing
}

export function laneStanding(rules: readonly PlanRule[], lane: Lane, weight: number, now: number): Standing {
  const { fired } = lane
  const { length } = fired
  if (lane.isAhead || (length !== 0 && fired[length - 1]! > now)) return 'unknown'
  for (let index = 0; index < rules.length; index += 1) {
    const { max, windowMs } = rules[index]!
    const places = max - weight + 1
    if (places < 1 || (length >= places && fired[length - places]! + windowMs > now)) return 'refuses'
  }
  return 'admits'
}

function ruleInstant({ max, windowMs }: PlanRule, fired: Log, weight: number, now: number): number {
  const places = max - weight + 1
  if (places < 1) return Infinity
  return fired.length < places ? now : fired[fired.length - places]! + windowMs
}

/** The decision on what goes through at once; to be made before it is inserted. */
export function admitted(now: number, fired: boolean, plan: Plan, weight: number, seated: Seated): Decision {
  return outcome(true, fired, now, undefined, nobody, plan, weight, seated, now)
}

/** The decision on what only asked, or was refused, and is not inserted; where the standing is known. */
export function answered(plan: Plan, weight: number, seated: Seated, now: number): Decision {
  let at = now
  let deciding: string | undefined
  let refusing: string[] | undefined
  for (const rule of plan.rules) {
    const { fired } = seated.lane ?? seated.seats[rule.stream]!
    const free = ruleInstant(rule, fired, weight, now)
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
  const { lane } = seated
  const log = lane === undefined ? snapshotOf(seated.seats) : lane.fired
  const length = lane === undefined ? lengthsWithin : lane.fired.length
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

function snapshotOf(seats: readonly Lane[]): Snapshot {
  const snapshot: (Log | number)[] = []
  for (const { fired } of seats) snapshot.push(fired, fired.length)
  return snapshot
}
