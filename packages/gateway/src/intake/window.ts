/**
 * The window of one partition: the records that are taken, and the position up to which all of them are done. Records
 * are done in any order. One that has to wait is given back: then nothing more is taken until those in progress are done,
 * and the partition is read again from it, past what is done already. Pure.
 */
import type { IntakePosition } from '../ports/intake.ts'

/** Records in progress or done behind the first that is not: a record that waits holds up what lies further behind. */
const windowMax = 500

export interface Window {
  /** The offset from which the partition is read next. */
  readonly fetchAt: () => number
  /** The number of records that may be taken now; 0 while one that was given back has not been read again. */
  readonly room: () => number
  /** True between a record that is given back and the next `resume`. */
  readonly isHeldUp: () => boolean
  /** True while a record is in progress. */
  readonly isBusy: () => boolean
  /** Takes a record that was read; false for one that is done or in progress. */
  take(offset: number): boolean
  /** Everything before the offset was read: records that a topic has dropped leave gaps. */
  readUpTo(offset: number): void
  done(offset: number): void
  /** The record has to wait: it stays in the topic. */
  giveBack(offset: number): void
  /** Reads on, from the first record that was given back. Nothing may be in progress. */
  resume(): void
  /** The position to record. */
  position(): Pick<IntakePosition, 'next' | 'ahead'>
}

export function createWindow(
  { next, ahead }: Pick<IntakePosition, 'next' | 'ahead'>,
  size: number = windowMax,
): Window {
  /** In the order of the offsets, because records are read in that order. */
  const pending = new Set<number>()
  const finished = new Set(ahead)
  let read = next
  /** The first record that was given back. */
  let back: number | undefined

  const lowest = (): number => {
    const [first = read] = pending
    return back === undefined ? first : Math.min(first, back)
  }

  /** Forgets what the position says without naming it. */
  function prune(): void {
    const from = lowest()
    for (const each of finished) if (each < from) finished.delete(each)
  }

  return {
    fetchAt: () => read,
    room: () => (back === undefined ? size - pending.size - finished.size : 0),
    isHeldUp: () => back !== undefined,
    isBusy: () => pending.size > 0,
    take(offset) {
      if (offset < read) return false
      read = offset + 1
      if (finished.has(offset)) {
        prune()
        return false
      }
      pending.add(offset)
      return true
    },
    readUpTo(offset) {
      read = Math.max(read, offset)
    },
    done(offset) {
      if (!pending.delete(offset)) return
      finished.add(offset)
      prune()
    },
    giveBack(offset) {
      if (pending.delete(offset)) back = Math.min(back ?? offset, offset)
    },
    resume() {
      read = back ?? read
      back = undefined
    },
    position() {
      const from = lowest()
      return { next: from, ahead: [...finished].filter((each) => each >= from).sort((a, b) => a - b) }
    },
  }
}
