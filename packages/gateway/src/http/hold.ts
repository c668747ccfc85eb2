/** Holds in requests and answers: the check of their end, and their form. */
import type { Clock, HoldRecord } from '../ports.ts'
import { isoOrNull } from './answer.ts'
import { parseInstant } from './syntax.ts'
import { invalidRequest } from './validation.ts'
import { aheadOf } from './wall-time.ts'

/** A longer stop is a change of the configuration, ms. */
const holdMsMax = 31 * 86_400_000

/** Returns the end of a hold in the process's own time. Throws INVALID_REQUEST for the past and the far future. */
export function checkUntil(until: string, clock: Pick<Clock, 'now' | 'aheadMs'>): number {
  const instant = parseInstant(until) - aheadOf(clock)
  const inMs = instant - clock.now()
  if (inMs <= 0) throw invalidRequest([{ path: '/until', message: 'must be in the future' }])
  if (inMs > holdMsMax) throw invalidRequest([{ path: '/until', message: 'must be at most 31 days ahead' }])
  return instant
}

export function holdAnswer({ since, until, ...hold }: HoldRecord, aheadMs: number) {
  return { ...hold, since: isoOrNull(since + aheadMs)!, until: isoOrNull(until + aheadMs)! }
}
