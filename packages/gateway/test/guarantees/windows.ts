/**
 * Compares arrivals with limits by counting: nothing here knows how the gateway decides. A window is
 * any half-open interval of its length; lateness is counted from the earliest instant that the limits, each kept
 * `marginMs` longer, admit given what had arrived before.
 */

import type { StampClock } from '../sinks/http.ts'

export interface Allowed {
  readonly max: number
  readonly windowMs: number
}

export interface Arrival {
  readonly at: number
  /** When it was accepted. */
  readonly acceptedAt: number
}

/** How often a window of this length, beginning with one of the arrivals, holds more than it may. */
export function overfull(instants: readonly number[], { max, windowMs }: Allowed): number {
  const sorted = [...instants].sort((a, b) => a - b)
  let over = 0
  for (const [index, from] of sorted.entries()) {
    const next = sorted[index + max]
    if (next !== undefined && next - from < windowMs) over += 1
  }
  return over
}

/** The windows over their limit as a text: when the first and the last of them ended, and the largest excess of one. */
export function overfullText(instants: Iterable<readonly number[]>, limit: Allowed): string {
  const ends: number[] = []
  let leastMs = Number.POSITIVE_INFINITY
  for (const theirs of instants) {
    const sorted = [...theirs].sort((a, b) => a - b)
    leastMs = Math.min(leastMs, slackMs(sorted, limit))
    ends.push(
      ...sorted.filter((at, index) => index >= limit.max && at - sorted[index - limit.max]! < limit.windowMs),
    )
  }
  if (ends.length === 0)
    return `no window is over, the fullest has ${leastMs.toFixed(0)} ms of its margin left`
  const [first, last] = [Math.min(...ends), Math.max(...ends)].map((at) => new Date(at).toISOString())
  return `windows over end between ${first} and ${last}, too early by ${(-leastMs).toFixed(0)} ms at most`
}

/** How even the clock of the provider's process ran, as a text. */
export function clockText({ stalls, wallShiftMs }: StampClock): string {
  const longest = stalls.toSorted((a, b) => b.ms - a.ms).slice(0, 3)
  const texts = longest.map(({ at, ms }) => `${ms.toFixed(0)} ms until ${new Date(at).toISOString()}`)
  return `${stalls.length} stalls of the provider's process above 20 ms${texts.length > 0 ? `: ${texts.join(', ')}` : ''}; the wall clock moved by ${wallShiftMs.toFixed(0)} ms`
}

/** The shortest span of `max + 1` arrivals, minus the window: what is left of the margin. */
export function slackMs(instants: readonly number[], { max, windowMs }: Allowed): number {
  const sorted = [...instants].sort((a, b) => a - b)
  let least = Number.POSITIVE_INFINITY
  for (let index = max; index < sorted.length; index += 1)
    least = Math.min(least, sorted[index]! - sorted[index - max]! - windowMs)
  return least
}

/** The lateness of each arrival at one recipient, against the earliest possible instant. */
export function latenesses(
  arrivals: readonly Arrival[],
  limits: readonly Allowed[],
  marginMs: number,
): number[] {
  const sorted = [...arrivals].sort((a, b) => a.at - b.at)
  return sorted.map(({ at, acceptedAt }, index) => {
    let earliest = acceptedAt
    for (const { max, windowMs } of limits) {
      const first = sorted[index - max]
      if (first !== undefined) earliest = Math.max(earliest, first.at + windowMs + marginMs)
    }
    return at - earliest
  })
}

/** The value that a share of them does not exceed (nearest rank). */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
}
