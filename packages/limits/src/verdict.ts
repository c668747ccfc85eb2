/**
 * Evaluates the rules of a plan at an instant, given the logs of its streams: which admit, which refuse, which decided.
 */
import { nobody } from './decision.ts'
import type { Plan } from './plan.ts'
import { type AnyLog, admits, givesWayAt } from './rolling-window.ts'

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

/** The names of the limits of which a rule does not admit. */
export function refusingLimits(plan: Plan, admits: readonly boolean[]): readonly string[] {
  if (!admits.includes(false)) return nobody
  const names: string[] = []
  for (let index = 0; index < admits.length; index += 1) {
    const { limit } = plan.rules[index]!
    if (!admits[index] && !names.includes(limit)) names.push(limit)
  }
  return names
}
