/** The ports of time and chance: what the clock says, what a timer brings, and random numbers. */

export interface Clock {
  /**
   * The current instant on this process's own time line: like epoch milliseconds, but it never steps. Everything that
   * is stored or measured uses this time line.
   */
  now(): number
  /**
   * The lead of the wall clock over the time line, in ms. An instant shown to users is the time line plus this value;
   * one that users give is converted back by subtracting it. Absent: the wall clock never steps, as in virtual time.
   */
  aheadMs?(): number
  /**
   * Milliseconds on the clock of this process alone, from any origin: it never steps back and is never slewed. The right
   * to send is judged by it, so that of several processes it goes on where the machine was suspended.
   */
  monotonic(): number
  /** Calls back once `now()` has reached the instant; the returned function cancels the timer. */
  at(instant: number, callback: () => void): () => void
  /**
   * Calls back after the events that have already arrived are handled: the moment at which a group commit is written.
   */
  soon(callback: () => void): void
}

/** The last saved offset between the time line of a process and the wall clock. */
export interface TimeLine {
  /** An instant that the time line had reached. */
  readonly at: number
  /** The lead of the wall clock over the time line, ms. */
  readonly aheadMs: number
}

export interface Random {
  /** Uniform in [0, 1). */
  next(): number
  /** A new identifier that sorts by time (ULID). */
  id(now: number): string
}
