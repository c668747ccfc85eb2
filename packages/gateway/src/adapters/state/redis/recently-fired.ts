/**
 * Remembers for a moment what this process has fired. The right to send of this process alone does not count where it reads
 * the record, and the call counts there only when it is made: a state that is lost between the answer of the limits and the
 * call would be filled without it, and without the instant at which a late call was counted anew. A firing without an
 * answer permits no call and is not noted.
 */
import type { RestoredEntry } from '@sluice/limits'
import type { RecoveredSubject } from '../../../ports/recovered-subject.ts'
import type { Clock, LimitRequest, Subject } from '../../../ports.ts'

export interface RecentlyFired {
  /** Notes that the limits have counted the call at this instant. */
  note(request: Pick<LimitRequest, 'subject' | 'id' | 'rules'>, at: number): void
  /**
   * Forgets what counts no longer: it was released, or the limits were asked again and refused it.
   * @param until - it stays where it was fired later. @defaultValue it goes in any case
   */
  forget(subject: Subject, id: string, until?: number): void
  /** Returns the facts of a subject with what was fired lately, and counts there earlier or not at all. */
  within(subject: Subject, facts: RecoveredSubject): RecoveredSubject
}

/** A firing is kept so long at least, and up to twice as long, ms; it permits its call for 100 ms at most (fired-in-time.ts). */
const keptMs = 1_000
/** The firings that are kept at least, up to twice as many: more than a process fires in a second. */
const keptMin = 50_000

export function createRecentlyFired(clock: Pick<Clock, 'now' | 'at'>): RecentlyFired {
  /** The calls by the id of their notification, by the key of their subject: of this second, and of the one before. */
  let current = new Map<string, Map<string, RestoredEntry>>()
  let earlier: typeof current = new Map()
  /** How often `current` was written. */
  let notes = 0
  let isArmed = false

  function turn(): void {
    earlier = current
    current = new Map()
    notes = 0
  }

  function arm(): void {
    if (isArmed) return
    isArmed = true
    clock.at(clock.now() + keptMs, () => {
      isArmed = false
      turn()
      if (earlier.size > 0) arm()
    })
  }

  return {
    note({ subject, id, rules }, at) {
      if (rules.length === 0) return
      if (notes === keptMin) turn()
      notes += 1
      const entry = { id, at, fired: true, streams: rules.map(({ stream }) => stream) }
      const own = current.get(subject.key)
      if (own === undefined) current.set(subject.key, new Map([[id, entry]]))
      else own.set(id, entry)
      arm()
    },
    forget({ key }, id, until = Number.POSITIVE_INFINITY) {
      for (const kept of [current, earlier]) {
        const own = kept.get(key)
        const entry = own?.get(id)
        if (own === undefined || entry === undefined || entry.at > until) continue
        own.delete(id)
        if (own.size === 0) kept.delete(key)
      }
    },
    within({ key }, facts) {
      const missing = new Map([...(earlier.get(key) ?? []), ...(current.get(key) ?? [])])
      if (missing.size === 0) return facts
      // The record has the streams of the rules in force. A retry may show the call before, and a late call its first instant.
      const entries = facts.entries.map((entry): RestoredEntry => {
        const own = missing.get(entry.id)
        missing.delete(entry.id)
        return own === undefined || (entry.fired && entry.at >= own.at)
          ? entry
          : { ...entry, at: own.at, fired: true }
      })
      return { ...facts, entries: [...entries, ...missing.values()] }
    },
  }
}
