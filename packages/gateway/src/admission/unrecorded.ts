/**
 * Notifications whose slots were looked at while they were not on record, or undecided there: their commits are under way.
 * Such a one could not move up. Where its commit is this process's, it is tried again when that is answered;
 * where it is another gateway's nothing tells of it, and it is tried again a little later, a few times.
 */
import type { Subject } from '../ports.ts'
import type { Sleeper } from '../sleeper.ts'

export interface UnrecordedOptions {
  /** Evaluates a notification again, and those behind it. */
  readonly moveUpFrom: (subject: Subject, id: string) => Promise<void>
  readonly sleep: Sleeper['sleep']
  readonly isStopped: () => boolean
  readonly onError: (what: string, error: unknown) => void
}

export interface Unrecorded {
  /** Notes an id that is being read: its commit may be answered before the read is. */
  note(id: string, subject: Subject): void
  /** It is on record. */
  found(id: string): void
  /** Nothing of it is on record yet. */
  missed(id: string, subject: Subject): void
  /** A commit of this process has put it on record. */
  recorded(id: string): void
}

/** Ids that are remembered: more than a process has commits under way at once. One whose commit was refused is the oldest. */
const unrecordedMax = 10_000
/** Delay before an id is tried again, ms, four times as long each time. A commit under way is over after the last. */
const [againMs, triesMax] = [250, 3]

export function createUnrecorded({ moveUpFrom, sleep, isStopped, onError }: UnrecordedOptions): Unrecorded {
  const subjects = new Map<string, Subject>()
  /** The least id that was missed since the last try, by the key of a subject that is tried again. */
  const missing = new Map<string, { least: string | undefined }>()

  const moveUp = (subject: Subject, id: string): Promise<void> =>
    moveUpFrom(subject, id).catch((error) => onError('let those who wait move up', error))

  async function moveUpLater(subject: Subject, of: { least: string | undefined }): Promise<void> {
    for (let tries = 0; tries < triesMax && of.least !== undefined; tries += 1) {
      await sleep(againMs * 4 ** tries)
      const { least } = of
      of.least = undefined
      if (isStopped() || !subjects.has(least)) break
      await moveUp(subject, least)
    }
    missing.delete(subject.key)
  }

  return {
    note(id, subject) {
      subjects.set(id, subject)
      if (subjects.size <= unrecordedMax) return
      const [oldest] = subjects.keys()
      subjects.delete(oldest!)
    },
    found(id) {
      subjects.delete(id)
    },
    missed(id, subject) {
      const known = missing.get(subject.key)
      if (known !== undefined) {
        const { least } = known
        // One that is on record by now was looked at again, with those behind it.
        if (least === undefined || id < least || !subjects.has(least)) known.least = id
        return
      }
      const of = { least: id }
      missing.set(subject.key, of)
      void moveUpLater(subject, of)
    },
    recorded(id) {
      const subject = subjects.size === 0 ? undefined : subjects.get(id)
      if (subject === undefined) return
      subjects.delete(id)
      void moveUp(subject, id)
    },
  }
}
