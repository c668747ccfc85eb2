/**
 * The quick way through a subject in memory, where nothing is booked and nothing lies in the future: O(1) a rule.
 */
import type { Snapshot } from '../decision.ts'
import type { Plan, PlanRule } from '../plan.ts'
import type { Log } from '../rolling-window.ts'
import type { Lane } from './lane.ts'

interface Seated {
  readonly lanes: readonly Lane[]
  readonly seats: readonly Lane[] | undefined
}

/** True when nothing is booked, nothing lies in the future and every rule admits; false when it takes a closer look. */
export function admitsQuickly(plan: Plan, { lanes, seats }: Seated, weight: number, now: number): boolean {
  if (lanes.length === 1) return laneAdmits(plan.rules, lanes[0]!, weight, now)
  if (seats === undefined) return true
  for (let index = 0; index < seats.length; index += 1) {
    if (!laneAdmits(plan.rulesByStream[index]!, seats[index]!, weight, now)) return false
  }
  return true
}

function laneAdmits(
  rules: readonly PlanRule[],
  { fired, booked }: Lane,
  weight: number,
  now: number,
): boolean {
  const { length } = fired
  if (booked.length !== 0 || (length !== 0 && fired[length - 1]! > now)) return false
  for (let index = 0; index < rules.length; index += 1) {
    const { max, windowMs } = rules[index]!
    const places = max - weight + 1
    if (places < 1 || (length >= places && fired[length - places]! + windowMs > now)) return false
  }
  return true
}

/** The logs as they stand, for the rows of a decision. */
export function snapshotOf({ lanes, seats }: Seated): Snapshot {
  if (lanes.length === 1) return [lanes[0]!.fired, lanes[0]!.fired.length]
  const snapshot: (Log | number)[] = []
  for (const { fired } of seats ?? []) snapshot.push(fired, fired.length)
  return snapshot
}
