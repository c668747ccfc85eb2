/** Defines the strikes of drills: trouble of the engines at a chosen call, and the requests that show what it does. */

/** Notifications that are posted so long after a strike, ms. */
export interface DrillPost {
  readonly afterMs: number
  /** To the process that was met, or to another one. */
  readonly to: 'same' | 'other'
  /** @defaultValue that of the notification that was met, and its recipient */
  readonly tenant?: string
  /** So many, each for a recipient of its own. @defaultValue one for the recipient that was met */
  readonly count?: number
  /** They are to leave so long after they are posted, ms. */
  readonly waitsMs?: number
}

/** Calls of a port that reach the engine at the end of the span at the earliest: somebody holds a lock there. */
interface DrillLock {
  /** The wire and the method. */
  readonly call: string
  readonly of: 'same' | 'other'
  readonly forMs: number
}

/**
 * Trouble of the engines that waits for the next right to send that a process asks for, or for the next call that is written;
 * or that comes at its time.
 */
export interface Strike {
  readonly at: number
  readonly awaits: 'begin' | 'written' | 'time'
  /** The server of limits loses everything so long after, ms. */
  readonly flushesAfterMs?: readonly number[]
  /**
   * A replica without the writes from now on takes the place of the server of limits so long after the right is known, ms.
   * With `deposedMs` the process goes on with the deposed server for that time, and the others do not.
   */
  readonly failOverAfterMs?: number
  readonly deposedMs?: number
  /** The process is stopped for so long before it hears of its right, ms. */
  readonly pauseMs?: number
  readonly locks?: readonly DrillLock[]
  readonly posts: readonly DrillPost[]
}
