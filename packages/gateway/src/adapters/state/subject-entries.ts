/** The instants of subjects in memory, as plans of what is late read and move them. */
import { entriesOf, type MemoryStore, type RestoredEntry, type SyncLimits } from '@sluice/limits'
import type { SubjectEntries } from '../../ports/limiter.ts'
import type { LimitState, Subject } from '../../ports.ts'

export interface SubjectEntriesOptions {
  readonly limits: Pick<SyncLimits, 'cancel' | 'restore'>
  readonly store: Pick<MemoryStore, 'sync'>
  /** True if the whole subject is in memory, under the rules in force. */
  readonly isKnown: (key: string) => boolean
  /** Notes the instant that an id holds in a subject now. */
  readonly note: (subject: Subject, id: string, at: number) => void
  /** Answers for each subject when it is known. */
  readonly each: <Asked extends { readonly subject: Subject }, Answer>(
    of: readonly Asked[],
    one: (of: Asked) => Answer,
  ) => Promise<readonly Answer[]>
  /** Pauses those of the subjects in which others wait than this id, and returns them. */
  readonly pauseBusy: (
    of: readonly { readonly subject: Subject; readonly id: string }[],
  ) => readonly Subject[]
}

export interface OwnSubjectEntries extends SubjectEntries {
  /** True if other ids than this one hold an instant in the subject, also one that has passed. */
  isShared(subject: Subject, id: string): boolean
  readonly reservedAt: LimitState['reservedAt']
}

/** Returns the latest instant that an id has reserved, epoch ms, where each has looked into the entries of one subject. */
export function latestReserved(
  found: readonly { readonly id: string; readonly entries: readonly RestoredEntry[] }[],
): number | undefined {
  let latest: number | undefined
  for (const { id, entries } of found) {
    const own = entries.find((entry) => entry.id === id && !entry.fired)
    if (own !== undefined && (latest === undefined || own.at > latest)) latest = own.at
  }
  return latest
}

/** No notification has it: those that wait are others. */
const noId = ''

export function createSubjectEntries(options: SubjectEntriesOptions): OwnSubjectEntries {
  const { limits, store, isKnown, note, each, pauseBusy } = options
  const entriesIn = ({ key }: Subject) => entriesOf(store.sync, key)

  return {
    async read(subject) {
      const [entries] = await each([{ subject }], ({ subject: known }) => entriesIn(known))
      return entries!
    },
    peek(subjects) {
      const known = new Map<string, readonly RestoredEntry[]>()
      for (const subject of subjects) if (isKnown(subject.key)) known.set(subject.key, entriesIn(subject))
      return known
    },
    move(moves) {
      const moved: { subject: Subject; id: string }[] = []
      for (const { id, at, subjects } of moves)
        for (const { subject, streams } of subjects) {
          limits.cancel(subject.key, id)
          limits.restore(subject.key, [{ id, at, fired: false, streams }])
          note(subject, id, at)
          moved.push({ subject, id: noId })
        }
      return pauseBusy(moved)
    },
    reservedAt: async (asked) =>
      latestReserved(await each(asked, ({ subject, id }) => ({ id, entries: entriesIn(subject) }))),
    isShared: (subject, own) => entriesIn(subject).some(({ id, fired }) => !fired && id !== own),
  }
}
