/**
 * The limit of complaints: from which frequency on it can no longer be said that the rate of complaints stays below it.
 * Each frequency gives an upper bound (Wilson, 95 %). The rate is taken not to fall with the frequency, so the bound of a
 * higher frequency holds for the lower ones too, which often have too few messages to show anything. Between two
 * frequencies the bound is interpolated. Pure.
 */
import { wilson } from './distributions.ts'
import type { Observation } from './observations.ts'

interface ComplaintPoint {
  readonly frequency: number
  readonly delivered: number
  readonly complaints: number
  /** Wilson's interval of the rate, 95 %. */
  readonly low: number
  readonly high: number
  /** The lowest upper bound of this and all higher frequencies. */
  readonly bound: number
}

export interface ComplaintLimit {
  /** The limit, a share of the delivered messages. */
  readonly limit: number
  readonly points: readonly ComplaintPoint[]
  /** The frequency at which the bound reaches the limit; undefined where it stays below at all that were observed. */
  readonly from: number | undefined
}

/** Judges complaints by frequency; undefined where nothing was counted. */
export function complaintLimit(groups: readonly Observation[], limit: number): ComplaintLimit | undefined {
  const counted = groups.filter(({ delivered }) => (delivered ?? 0) > 0)
  if (counted.length === 0) return undefined
  const points: ComplaintPoint[] = []
  let bound = 1
  for (const { frequency, delivered = 0, complaints = 0 } of counted.toReversed()) {
    const [low, high] = wilson(complaints, delivered)
    bound = Math.min(bound, high)
    points.unshift({ frequency, delivered, complaints, low, high, bound })
  }
  return { limit, points, from: crossing(points, limit) }
}

/** The frequency at which the interpolated bound reaches the limit: 0 where the first one is above it already. */
function crossing(points: readonly ComplaintPoint[], limit: number): number | undefined {
  const above = points.findIndex(({ bound }) => bound >= limit)
  if (above === -1) return undefined
  const [before, after] = [points[above - 1], points[above]!]
  if (before === undefined) return 0
  const share = (limit - before.bound) / (after.bound - before.bound)
  return before.frequency + share * (after.frequency - before.frequency)
}
