/** Pauses that a stop ends: between two tries, of the walk at the start, and of subjects whose pass is tried again. */
import type { Clock } from '../ports.ts'

export interface Rests {
  /** Resolves after so many ms, or at `wakeAll`. */
  rest(ms: number): Promise<void>
  wakeAll(): void
}

export function createRests(clock: Pick<Clock, 'now' | 'at'>): Rests {
  /** Ends a rest: as many as there are tries that wait for their repetition. */
  const resting = new Set<() => void>()

  return {
    rest: (ms) =>
      new Promise((resolve) => {
        const wake = (): void => {
          disarm()
          resting.delete(wake)
          resolve()
        }
        const disarm = clock.at(clock.now() + ms, wake)
        resting.add(wake)
      }),
    wakeAll() {
      for (const wake of resting) wake()
    },
  }
}

/** Repeats work on the record after each failure until it is done, or the owner is closed. */
export interface UntilDone {
  /** Does the work once more after each failure; undefined at the close. */
  run<T>(what: string, work: () => Promise<T>): Promise<T | undefined>
  close(): void
}

export function createUntilDone(
  clock: Pick<Clock, 'now' | 'at'>,
  againMs: number,
  onError: (what: string, error: unknown) => void,
): UntilDone {
  const { rest, wakeAll } = createRests(clock)
  let closed = false

  return {
    async run(what, work) {
      while (!closed)
        try {
          return await work()
        } catch (error) {
          onError(what, error)
          await rest(againMs)
        }
      return undefined
    },
    close() {
      closed = true
      wakeAll()
    },
  }
}
