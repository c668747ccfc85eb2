/** Pauses that a stop ends: of subjects whose pass is tried again, and of the walk at the start. */
import type { Clock } from '../ports.ts'

export interface Rests {
  /** Resolves after so many ms, or at `wakeAll`. */
  rest(ms: number): Promise<void>
  wakeAll(): void
}

export function createRests(clock: Pick<Clock, 'now' | 'at'>): Rests {
  /** Ends a rest: as many as there are subjects that are tried again, and the walk at the start. */
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
