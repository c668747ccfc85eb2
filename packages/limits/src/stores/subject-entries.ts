/** The part of a subject (subject.ts) that the general path and evictions read and change; a subject imports both. */
import type { Entry } from './entry.ts'
import type { EventLog } from './event-log.ts'

export interface SubjectEntries {
  /** The event log of all streams of the plan at hand, where they share one. */
  readonly eventLog: EventLog | undefined
  /** The event logs of the plan at hand, each once. */
  readonly eventLogs: readonly EventLog[]
  /** The event log of each stream of the plan at hand, in its order; only where they do not share one. */
  readonly planLogs: readonly EventLog[]
  readonly ids: ReadonlyMap<string, Entry> | undefined
  /** Answers when the block of the subject ends, epoch ms; undefined where it is not blocked. */
  blockedUntil(now: number): number | undefined
  /** Removes an entry from its event logs; its id is kept. */
  takeOut(entry: Entry): void
  /** Inserts an entry into its event logs. */
  putBack(entry: Entry, now: number): void
  /** Stores an entry under its id. */
  remember(id: string, entry: Entry, now: number): void
  forgetId(id: string): void
}
