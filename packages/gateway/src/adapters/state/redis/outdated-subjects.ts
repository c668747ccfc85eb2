/**
 * Bounds how often a process lets those who wait in a subject move up because the subject was filled under other rules. While
 * two policies are in force, as in a rolling deployment, the processes of each fill a subject again behind those of the
 * other, and each moves its notifications to the instants of its own policy: without a bound they do nothing else until the
 * last process of one policy has gone.
 */
import type { Clock, Subject } from '../../../ports.ts'

export interface OutdatedSubjects {
  /** True if those who wait in the subject move up, or did so a moment ago. */
  hasMovedUp(subject: Subject): boolean
  /** Notes that they move up now. */
  movesUp(subject: Subject): void
  /** Notes that they have moved up: the longer it took, the longer the subject rests. */
  ends(subject: Subject): void
  /** Reports the subject when it has rested, once; at once where too many are put off. */
  putOff(subject: Subject): void
  close(): void
}

/** Between two times that those of one subject move up, ms. */
const restMs = 10_000
/**
 * A subject rests for so many times as long as its last time took. With eighty that wait each took some eight seconds in the
 * simulator, as nearly each question fills the subject again, and two processes moved them without end.
 */
const restFactor = 4
/** A time takes so long at most, as far as is known: the word of its end may fail to come, ms. */
const timeMaxMs = 60_000
/** Subjects whose last time is remembered, and that are put off: further ones move up at once. */
const subjectsMax = 10_000

/** The last time that those of a subject moved up, in instants of `Clock.monotonic`. */
interface LastTime {
  readonly begunAt: number
  /** The instant at which they may move up again; before their end is told it is that of the longest time. */
  restsUntil: number
}

/** @param report called where a subject that was put off is to move up now */
export function createOutdatedSubjects(
  clock: Pick<Clock, 'now' | 'monotonic' | 'at'>,
  report: (subject: Subject) => void,
): OutdatedSubjects {
  /** By subject, oldest first. */
  const last = new Map<string, LastTime>()
  /** Subjects that are put off. */
  const timers = new Map<string, () => void>()
  let isClosed = false

  const hasMovedUp = ({ key }: Subject): boolean =>
    clock.monotonic() < (last.get(key)?.restsUntil ?? Number.NEGATIVE_INFINITY)

  function arm(subject: Subject): void {
    const restsUntil = last.get(subject.key)?.restsUntil ?? Number.NEGATIVE_INFINITY
    const ms = Math.max(1, Math.min(restMs, restsUntil - clock.monotonic()))
    const disarm = clock.at(clock.now() + ms, () => {
      timers.delete(subject.key)
      if (hasMovedUp(subject)) arm(subject)
      else report(subject)
    })
    timers.set(subject.key, disarm)
  }

  return {
    hasMovedUp,
    movesUp({ key }) {
      const begunAt = clock.monotonic()
      last.delete(key)
      last.set(key, { begunAt, restsUntil: begunAt + timeMaxMs })
      if (last.size > subjectsMax) last.delete(last.keys().next().value!)
    },
    ends({ key }) {
      const time = last.get(key)
      if (time === undefined) return
      const now = clock.monotonic()
      time.restsUntil = Math.max(time.begunAt + restMs, now + restFactor * (now - time.begunAt))
    },
    putOff(subject) {
      if (timers.has(subject.key) || isClosed) return
      if (timers.size >= subjectsMax) report(subject)
      else arm(subject)
    },
    close() {
      isClosed = true
      for (const disarm of timers.values()) disarm()
      timers.clear()
    },
  }
}
