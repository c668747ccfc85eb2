/**
 * The limits of one call in the form that stores work with: each stream once, one rule per window, the margin
 * added. Limits are written once and asked millions of times, so a plan is compiled at the first call with an
 * array of limits and found again by that array's identity. A plan is plain data: it can be sent to a script.
 */
import { checkWhole, LimitsError } from './errors.ts'
import { type Limit, overs } from './limit.ts'
import type { Rule } from './rolling-window.ts'
import { dropOldest } from './time-zone.ts'
import { checkWindow, shortWindowMsMax } from './window.ts'

export interface PlanRule extends Rule {
  /** Index of its stream in `Plan.streams`. */
  readonly stream: number
  /** The maximum that decides; beyond reach where the limit only counts. */
  readonly max: number
  /** The maximum as it was written. */
  readonly maxWritten: number
  /** With the margin. */
  readonly windowMs: number
  /** Name of its limit. */
  readonly limit: string
  /** The window as it was written. */
  readonly text: string
  /** True where a reservation that this rule does not admit is refused rather than delayed. */
  readonly refuse: boolean
}

export interface Plan {
  readonly limits: readonly Limit[]
  readonly streams: readonly string[]
  /** In the order of the limits and of their windows: the order of the rows of a decision. */
  readonly rules: readonly PlanRule[]
  /** The same rules by stream. */
  readonly rulesByStream: readonly (readonly PlanRule[])[]
  /** Indexes of the streams in which a refused `take` counts. */
  readonly countRefused: readonly number[]
  /** True where any rule refuses reservations. */
  readonly refuses: boolean
  /** The longest window, with the margin, ms; 0 where there is none. */
  readonly longestMs: number
  /** True where the array of limits came more than once: only then is it worthwhile to remember anything by plan. */
  recurs: boolean
}

/** Compiles without remembering. @throws LimitsError `INVALID_RULES`, `INVALID_WINDOW` */
export function compile(limits: readonly Limit[], marginMs: number): Plan {
  if (!Array.isArray(limits))
    throw new LimitsError('INVALID_RULES', 'rules are a list of limits made by limit()')
  const streams: string[] = []
  const rules: PlanRule[] = []
  const rulesByStream: PlanRule[][] = []
  const countRefused: number[] = []
  let refuses = false
  let longestMs = 0
  for (let index = 0; index < limits.length; index += 1) {
    const limit = limits[index]!
    checkLimit(limits, index)
    let stream = streams.indexOf(limit.stream)
    if (stream < 0) {
      stream = streams.push(limit.stream) - 1
      rulesByStream.push([])
    }
    const refuse = limit.over === 'refuse'
    refuses ||= refuse
    if (limit.countRefused && !countRefused.includes(stream)) countRefused.push(stream)
    for (const window of limit.windows) {
      checkWindow(window)
      const { max: maxWritten, text } = window
      const max = limit.over === 'count' ? Number.MAX_SAFE_INTEGER : maxWritten
      const windowMs = window.windowMs + marginMs
      longestMs = Math.max(longestMs, windowMs)
      const rule = { stream, max, maxWritten, windowMs, limit: limit.name, text, refuse }
      rules.push(rule)
      rulesByStream[stream]!.push(rule)
    }
  }
  return {
    limits: [...limits],
    streams,
    rules,
    rulesByStream,
    countRefused,
    refuses,
    longestMs,
    recurs: false,
  }
}

/** A limit may be a copy of one that limit() made, with another stream or `over`; what is nonsense is refused here. */
function checkLimit(limits: readonly Limit[], index: number): void {
  const limit = limits[index]
  if (
    !Array.isArray(limit?.windows) ||
    limit.windows.length === 0 ||
    typeof limit.stream !== 'string' ||
    !limit.stream.isWellFormed()
  ) {
    throw new LimitsError('INVALID_RULES', `rules[${index}] is no limit made by limit()`)
  }
  if (!overs.includes(limit.over))
    throw new LimitsError('INVALID_RULES', `rules[${index}].over is 'delay', 'refuse' or 'count'`)
  for (let other = 0; other < index; other += 1) {
    if (limits[other]!.name === limit.name) {
      throw new LimitsError('INVALID_RULES', `two limits of one call are named '${limit.name}'`)
    }
  }
}

/** Arrays of limits that were seen once; those that come again are kept for as long as they live. */
const recentMax = 16

/**
 * Finds or compiles the plan of an array of limits. An array that is made anew for each call costs a compilation
 * each time (below 1 µs for six rules) but leaves nothing behind.
 */
export function createPlanner(marginMs: number): (limits: readonly Limit[]) => Plan {
  checkWhole('marginMs', marginMs, 0, shortWindowMsMax)
  const kept = new WeakMap<readonly Limit[], Plan>()
  const recent = new Map<readonly Limit[], Plan>()
  let lastLimits: readonly Limit[] | undefined
  let lastPlan: Plan | undefined

  function find(limits: readonly Limit[]): Plan {
    const known = recent.get(limits) ?? kept.get(limits)
    if (known !== undefined && isCurrent(known, limits)) {
      known.recurs = true
      recent.delete(limits)
      kept.set(limits, known)
      return known
    }
    const compiled = compile(limits, marginMs)
    dropOldest(recent, recentMax)
    recent.set(limits, compiled)
    return compiled
  }

  return (limits) => {
    if (limits === lastLimits && lastPlan?.recurs === true && isCurrent(lastPlan, limits)) return lastPlan
    lastPlan = find(limits)
    lastLimits = limits
    return lastPlan
  }
}

/** Tells whether the array still holds the limits that were compiled. */
function isCurrent(plan: Plan, limits: readonly Limit[]): boolean {
  if (limits.length !== plan.limits.length) return false
  for (let index = 0; index < limits.length; index += 1)
    if (plan.limits[index] !== limits[index]) return false
  return true
}
