/**
 * The inverse of `restore`, so that a caller may keep the state of a subject elsewhere and forget it here. A function
 * of its own: bundles of users who do not call it leave it out.
 */
import type { RestoredEntry, SyncStore } from '../store.ts'
import type { SubjectEntries } from './subject-entries.ts'

/**
 * Answers what a store in this process knows of a subject under ids. Units that were taken without an id are not in
 * it, and a block is an entry that no stream counts.
 */
export function entriesOf(store: SyncStore, subject: string): readonly RestoredEntry[] {
  const { ids = [] } = store.peek(subject) as SubjectEntries
  return [...ids].map(([id, { at, weight, fired, eventLogs }]) => ({
    id,
    at,
    weight,
    fired,
    streams: eventLogs.flatMap(({ names }) => names),
  }))
}
