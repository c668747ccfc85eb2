/**
 * Forbidden intervals, in which nothing may leave: quiet hours, legal hours, a provider's Retry-After. They are half open,
 * come in any order and may overlap. An instant inside one goes on to where that interval lets it resume.
 */
import { LimitsError } from './errors.ts'

/** Nothing may leave in [from, to). Epoch milliseconds; `to` may be Infinity. */
export interface ForbiddenInterval {
  readonly from: number
  readonly to: number
  /**
   * Where something that waited inside the interval goes on, at or after `to`: quiet hours end for all at once, and
   * what waits is spread behind the end. It binds only what was inside: [to, resumeAt) is open to everything else.
   *
   * @defaultValue `to`
   */
  readonly resumeAt?: number
}

export const nothingForbidden: readonly ForbiddenInterval[] = /* @__PURE__ */ Object.freeze([])

/**
 * The first instant ≥ t that is in no interval. Where several hold an instant, the one that resumes last wins.
 * Linear: a month of nightly quiet hours is 31 comparisons.
 */
export function leave(forbidden: readonly ForbiddenInterval[], t: number): number {
  let at = t
  for (;;) {
    let next = at
    for (const { from, to, resumeAt = to } of forbidden) {
      if (from <= at && at < to && resumeAt > next) next = resumeAt
    }
    if (next === at) return at
    at = next
  }
}

/**
 * Whole milliseconds, without empty intervals: for whole t, `from ≤ t < to` is the same with both rounded up.
 *
 * @throws LimitsError `INVALID_ARGUMENT`
 */
export function checkForbidden(forbidden: readonly ForbiddenInterval[]): readonly ForbiddenInterval[] {
  let clean = true
  for (const interval of forbidden) {
    const { from, to, resumeAt = to } = interval ?? {}
    if (typeof from !== 'number' || typeof to !== 'number' || !(resumeAt >= to) || Number.isNaN(from + to)) {
      // -Infinity + Infinity is NaN as well, and as unreadable as an interval.
      throw new LimitsError(
        'INVALID_ARGUMENT',
        `forbidden holds ${String(from)} to ${String(to)}: epoch milliseconds are needed, and resumeAt >= to`,
      )
    }
    clean &&=
      from < to && Math.ceil(from) === from && Math.ceil(to) === to && Math.ceil(resumeAt) === resumeAt
  }
  if (clean) return forbidden
  return forbidden
    .map(({ from, to, resumeAt = to }) => ({
      from: Math.ceil(from),
      to: Math.ceil(to),
      resumeAt: Math.ceil(resumeAt),
    }))
    .filter(({ from, to }) => from < to)
}
