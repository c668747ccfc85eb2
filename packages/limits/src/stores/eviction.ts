/**
 * Room for a high reservation: low ones that are booked and in its way give theirs up. All of them come out, the
 * earliest instant is found without them, and in the order of their instants each goes back that is not in the way
 * of it, neither at that instant nor, for limits that refuse, at the first one. What stays out is evicted; none of
 * it could be put back alone.
 */

import type { Plan } from '../plan.ts'
import { earliest, type Free } from '../rolling-window.ts'
import type { Terms } from '../store.ts'
import { refuserOf } from '../verdict.ts'
import type { EventLog } from './event-log.ts'
import type { SubjectEntries } from './subject-entries.ts'

export interface Eviction {
  /** The instant that is gained. */
  readonly at: number
  /** In the order of their instants. */
  readonly ids: readonly string[]
  /** The evicted are out until here: forgets them, or puts them back where it was only a question. */
  finish(forGood: boolean): void
}

/** Undefined where nothing is gained, and then everything is as it was. */
export function makeRoom(
  subject: SubjectEntries,
  plan: Plan,
  planLogs: readonly EventLog[],
  terms: Terms,
  free: Free,
  admitsAt: (at: number) => readonly boolean[],
  without: { readonly start: number; readonly firstAt: number; readonly at: number },
): Eviction | undefined {
  const candidates = [...(subject.ids ?? [])]
    .filter(
      ([, entry]) =>
        entry.low && !entry.fired && entry.eventLogs.some((eventLog) => planLogs.includes(eventLog)),
    )
    .sort(([idA, a], [idB, b]) => a.at - b.at || (idA < idB ? -1 : 1))
  if (candidates.length === 0) return undefined
  for (const [, entry] of candidates) subject.takeOut(entry)
  const refuses = (): boolean => refuserOf(plan, admitsAt(without.firstAt)) !== undefined
  const at = earliest(plan.rules, free, terms.forbidden, without.firstAt)
  if (refuses() || at >= without.at || at - without.start > terms.horizonMs) {
    for (const [, entry] of candidates) subject.putBack(entry, without.start)
    return undefined
  }
  const evicted = candidates.filter(([, entry]) => {
    subject.putBack(entry, without.start)
    if (!admitsAt(at).includes(false) && !refuses()) return false
    subject.takeOut(entry)
    return true
  })
  return {
    at,
    ids: evicted.map(([id]) => id),
    finish(forGood) {
      for (const [id, entry] of evicted) {
        if (forGood) subject.forgetId(id)
        else subject.putBack(entry, without.start)
      }
    },
  }
}
