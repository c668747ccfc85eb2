/**
 * Bounds how often a process lets those who wait in a subject move up because the subject was filled under other rules. While
 * two policies are in force, as in a rolling deployment, the processes of each fill a subject again behind those of the
 * other, and each moves its notifications to the instants of its own policy: without a bound they do nothing else until the
 * last process of one policy has gone.
 */
import type { Clock, Subject } from '../../../ports.ts'

export interface OutdatedSubjects {
  /** True if those who wait in the subject moved up a moment ago. */
  hasMovedUp(subject: Subject): boolean
  /** Notes that they move up now. */
  movesUp(subject: Subject): void
  /** Reports the subject later, once; at once where too many are put off. */
  putOff(subject: Subject): void
  close(): void
}

/** Between two times that those of one subject move up, ms. */
const restMs = 10_000
/** Subjects whose last time is remembered, and that are put off: further ones move up at once. */
const subjectsMax = 10_000

/** @param report called where a subject that was put off is to move up now */
export function createOutdatedSubjects(
  clock: Pick<Clock, 'now' | 'monotonic' | 'at'>,
  report: (subject: Subject) => void,
): OutdatedSubjects {
  /** The instant of the last time, by subject, oldest first. */
  const last = new Map<string, number>()
  /** Subjects that are put off. */
  const timers = new Map<string, () => void>()
  let isClosed = false
  return {
    hasMovedUp: ({ key }) => clock.monotonic() - (last.get(key) ?? Number.NEGATIVE_INFINITY) < restMs,
    movesUp({ key }) {
      last.delete(key)
      last.set(key, clock.monotonic())
      if (last.size > subjectsMax) last.delete(last.keys().next().value!)
    },
    putOff(subject) {
      if (timers.has(subject.key) || isClosed) return
      if (timers.size >= subjectsMax) {
        report(subject)
        return
      }
      const disarm = clock.at(clock.now() + restMs, () => {
        timers.delete(subject.key)
        report(subject)
      })
      timers.set(subject.key, disarm)
    },
    close() {
      isClosed = true
      for (const disarm of timers.values()) disarm()
      timers.clear()
    },
  }
}
