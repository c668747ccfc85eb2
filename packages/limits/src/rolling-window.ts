/**
 * The mathematics of exact rolling windows, and nothing else. A log is a sorted list of instants; a rule (log, N, W)
 * says that no half-open interval of length W holds more than N of them, so two events exactly W apart are both
 * allowed. Seen from a new instant t a rule is a union of forbidden open intervals, one for each block of N
 * consecutive instants whose span is below W: (last − W, first + W). The earliest admissible instant is the least
 * t outside all of them, and outside the forbidden hours, which are intervals just the same.
 *
 * Whoever inserts `weight` instants at once needs a block less by weight − 1: `places = N − weight + 1`.
 */
import { type ForbiddenInterval, leave } from './forbidden.ts'
import { firstAbove, Runs } from './runs.ts'

/** Sorted epoch milliseconds. The same instant may stand in it several times. */
export type Log = readonly number[]
/** A list of instants, or the same in runs, where many stand at one instant. Both have so many units as `length`. */
export type AnyLog = Log | Runs

/** The instant of the unit with this index, which exists. */
export function instantAt(log: AnyLog, index: number): number {
  return log instanceof Runs ? log.instantAt(index) : log[index]!
}

export interface Rule {
  /** The index of the log that it counts. */
  readonly stream: number
  readonly max: number
  readonly windowMs: number
}

/** Counts the instants ≤ t: the index of the first one > t. */
export function countUntil(log: AnyLog, t: number): number {
  if (log instanceof Runs) return log.countBefore(t + 1)
  const { length } = log
  // Nearly always everything lies in the past, or everything within the window.
  if (length === 0 || log[length - 1]! <= t) return length
  if (log[0]! > t) return 0
  return firstAbove(log, t)
}

/** The earliest instant ≥ from at which one rule over a sorted log of instants admits `weight` more. Infinity where it never does. */
export function freeAt(log: Log, max: number, windowMs: number, weight: number, from: number): number {
  return findFree(log, max, windowMs, weight, from)
}

/**
 * Does the same for logs in runs too. With `isTest` it stops at the first block that forbids, which is enough to know
 * whether `from` is admitted.
 */
export function findFree(
  log: AnyLog,
  max: number,
  windowMs: number,
  weight: number,
  from: number,
  isTest = false,
): number {
  const places = max - weight + 1
  if (places < 1) return Number.POSITIVE_INFINITY
  if (log.length < places) return from
  if (log instanceof Runs) return freeInRuns(log, places, windowMs, from)
  let t = from
  for (let first = countUntil(log, t - windowMs); first + places <= log.length; first += 1) {
    const last = log[first + places - 1]!
    // This block, and each one behind it, begins to forbid at or after t.
    if (last - windowMs >= t) break
    // A block that spans W or more is no full window. Without this test the rule would refuse what is legal.
    if (last - log[first]! < windowMs) {
      t = log[first]! + windowMs
      if (isTest) break
    }
  }
  return t
}

/** Does the same from run to run: between two ends of runs no block has another first or last instant. */
function freeInRuns(log: Runs, places: number, windowMs: number, from: number): number {
  let t = from
  for (let first = countUntil(log, t - windowMs); first + places <= log.length; ) {
    const tail = first + places - 1
    const head = log.instantAt(first)
    const last = log.instantAt(tail)
    if (last - windowMs >= t) break
    if (last - head < windowMs) t = head + windowMs
    first = Math.min(log.endOfRun(first), log.endOfRun(tail) - places + 1)
  }
  return t
}

/** Tells whether this one rule admits `weight` more at t. */
export function admits(log: AnyLog, max: number, windowMs: number, weight: number, t: number): boolean {
  return findFree(log, max, windowMs, weight, t, true) === t
}

/** The earliest instant ≥ from at which a rule admits. */
export type Free = (rule: Rule, from: number) => number

/** The earliest instant ≥ from that all rules admit; the forbidden hours do not count here. */
function earliestUnderRules(rules: readonly Rule[], free: Free, from: number): number {
  let t = from
  let settled = 0
  for (
    let index = 0;
    settled < rules.length && t < Number.POSITIVE_INFINITY;
    index = (index + 1) % rules.length
  ) {
    const next = free(rules[index]!, t)
    settled = next === t ? settled + 1 : 1
    t = next
  }
  return t
}

/**
 * The earliest instant ≥ from that every rule admits and no interval forbids. The rules settle first, then the
 * intervals are asked: an instant that the rules alone would carry across the end of an interval does not resume there.
 * `free` is `freeAt` on the log of the rule's stream, or whatever finds the same faster.
 */
export function earliest(
  rules: readonly Rule[],
  free: Free,
  forbidden: readonly ForbiddenInterval[],
  from: number,
): number {
  let t = leave(forbidden, from)
  for (;;) {
    t = earliestUnderRules(rules, free, t)
    const open = leave(forbidden, t)
    if (open === t) return t
    t = open
  }
}

/**
 * Tells whether this rule refuses an instant just before t and admits t: then it is the rule that delayed the call
 * until t. It asks the log and not the way on which t was found, so that every store names the same limit.
 */
export function givesWayAt(log: AnyLog, max: number, windowMs: number, weight: number, t: number): boolean {
  const places = max - weight + 1
  if (places < 1) return t === Number.POSITIVE_INFINITY
  if (!admits(log, max, windowMs, weight, t)) return false
  const first = countUntil(log, t - windowMs - 1)
  if (first + places > log.length) return false
  const head = instantAt(log, first)
  return head + windowMs === t && instantAt(log, first + places - 1) - head < windowMs
}

/** Counts the instants in the window of this length that ends now, now included. */
export function countIn(log: AnyLog, windowMs: number, now: number): number {
  return countUntil(log, now) - countUntil(log, now - windowMs)
}

/**
 * How many more a rule admits at t, one after the other. The fullest window that holds t ends with t itself or with an
 * instant behind it, so those are tried.
 */
export function roomAt(log: AnyLog, max: number, windowMs: number, t: number): number {
  const past = countUntil(log, t)
  let fullest = past - countUntil(log, t - windowMs)
  for (let index = past; index < log.length; ) {
    const end = instantAt(log, index)
    if (end >= t + windowMs) break
    index = countUntil(log, end)
    fullest = Math.max(fullest, index - countUntil(log, end - windowMs))
  }
  return Math.max(0, max - fullest)
}

/** Two sorted logs as one. Returns one of them where the other is empty. */
export function merge(a: AnyLog, b: AnyLog): AnyLog {
  if (b.length === 0) return a
  if (a.length === 0) return b
  if (a instanceof Runs || b instanceof Runs) return Runs.of(b, Runs.of(a))
  const merged: number[] = []
  let i = 0
  let j = 0
  // Behind the end of b nothing is greater.
  while (i < a.length || j < b.length) merged.push(i < a.length && !(a[i]! > b[j]!) ? a[i++]! : b[j++]!)
  return merged
}
