/**
 * Decides by complaints if a category of one tenant flows, is slowed or pauses. The rate of complaints is judged on the
 * lower bound of its Wilson interval (E. B. Wilson, 1927), so that few complaints among few deliveries stop nothing: one
 * in a thousand is a rate of 0.1 % with a lower bound of 0.008 %. Pure.
 */

import type { ComplaintCounts, ComplaintStage } from '../reports.ts'

/** The section `complaints` of a policy. Shares are from 0 to 1. */
export interface ComplaintRules {
  /** From this bound on the category slows. */
  readonly warnAt: number
  /** From this bound on it pauses. */
  readonly pauseAt: number
  readonly windowMs: number
  /** Fewer delivered notifications are not judged. */
  readonly minimumDelivered: number
  readonly categories: readonly string[]
}

/** Categories whose notifications never wait for complaints (contract, Feedback). */
export const unguardedCategories: readonly string[] = ['security', 'billing']

/** The quantile of the normal distribution for a two-sided interval of 99.9 %. */
const z = 3.2905267314919255
/** A pause ends below this share of `pauseAt`, so that it does not begin and end with every complaint. */
const resumeShare = 0.8
/** The share of departures that is left just below `pauseAt`. */
export const departureShareMin = 0.1

/** Computes the lower bound of the Wilson interval of the rate, from 0 to 1; 0 where nothing was delivered. */
export function complaintBound({ delivered, complained }: ComplaintCounts): number {
  if (delivered <= 0 || complained <= 0) return 0
  // Complaints about deliveries before the window may outnumber those in it.
  const rate = Math.min(1, complained / delivered)
  const perDelivery = (z * z) / delivered
  const spread = z * Math.sqrt((rate * (1 - rate) + perDelivery / 4) / delivered)
  return Math.max(0, (rate + perDelivery / 2 - spread) / (1 + perDelivery))
}

/**
 * Decides the stage that follows `before`. A pause lasts until the bound is low enough, however few deliveries are left
 * in the window: while nothing leaves, their number falls below the minimum by itself.
 */
export function nextStage(
  rules: Pick<ComplaintRules, 'warnAt' | 'pauseAt' | 'minimumDelivered'>,
  counts: ComplaintCounts,
  before: ComplaintStage,
): ComplaintStage {
  const bound = complaintBound(counts)
  if (before === 'paused' && bound >= resumeShare * rules.pauseAt) return 'paused'
  if (counts.delivered < rules.minimumDelivered || bound < rules.warnAt) return 'free'
  return bound >= rules.pauseAt ? 'paused' : 'slowed'
}

/** Computes the share of departures of a slowed category: all at `warnAt`, a tenth at `pauseAt`, linear in between. */
export function departureShare(
  { warnAt, pauseAt }: Pick<ComplaintRules, 'warnAt' | 'pauseAt'>,
  bound: number,
): number {
  if (bound <= warnAt) return 1
  if (bound >= pauseAt) return departureShareMin
  return 1 - ((1 - departureShareMin) * (bound - warnAt)) / (pauseAt - warnAt)
}
