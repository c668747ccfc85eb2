/**
 * Tries again later to move up those of a subject where that has failed. Until then newcomers stay behind all who waited when the
 * pass began. A subject has one next try, which looks at all who wait, however often that has failed: with one for each failure
 * a gateway asked for a thousand holds a second behind a loss of Redis, and requests waited behind those for up to ten seconds.
 */
import type { LimitState, Subject } from '../ports.ts'
import { retryDelayMs, type Sleeper } from '../sleeper.ts'

export interface MoveUpRetriesOptions {
  readonly state: Pick<LimitState, 'pause'>
  /** Does the work in a subject, which is paused, and lets those who wait there move up. */
  readonly moveUpAfter: (subject: Subject, work: () => Promise<void>) => Promise<void>
  /** The work before each try. */
  readonly before: () => Promise<void>
  readonly sleep: Sleeper['sleep']
  readonly isStopped: () => boolean
}

export interface MoveUpRetries {
  later(subject: Subject, error: unknown): void
  /** A subject has had its turn without a failure. */
  succeeded(subject: Subject): void
  /** True if a stop has cut a try short. */
  isCutShort(): boolean
}

/** Delay before those of a subject are tried again after the first failure, ms. */
const againMs = 1_000

export function createMoveUpRetries(options: MoveUpRetriesOptions): MoveUpRetries {
  const { state, moveUpAfter, before, sleep, isStopped } = options
  /** Failed passes in a row, of the subjects that are tried again. */
  const failures = new Map<string, number>()
  /** Subjects whose next try has not begun. */
  const planned = new Set<string>()
  let isCutShort = false

  async function retry(subject: Subject, delayMs: number): Promise<void> {
    await sleep(delayMs)
    if (isStopped()) {
      isCutShort = true
      return
    }
    await state.pause([subject])
    await moveUpAfter(subject, () => {
      planned.delete(subject.key)
      return before()
    }).catch((error) => later(subject, error))
  }

  function later(subject: Subject, error: unknown): void {
    const { key } = subject
    if (isStopped()) isCutShort = true
    if (isStopped() || planned.has(key)) return
    planned.add(key)
    const count = failures.get(key) ?? 0
    failures.set(key, count + 1)
    void retry(subject, retryDelayMs(againMs, count, error, failures.size))
  }

  return {
    later,
    succeeded: ({ key }) => void failures.delete(key),
    isCutShort: () => isCutShort,
  }
}
