/** Repeats work on the record after each failure until it is done, or the owner is closed. */
import type { Clock } from '../ports.ts'

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
  const wakes = new Set<() => void>()
  let closed = false

  function rest(): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        stop()
        wakes.delete(wake)
        resolve()
      }
      const stop = clock.at(clock.now() + againMs, wake)
      wakes.add(wake)
    })
  }

  return {
    async run(what, work) {
      while (!closed)
        try {
          return await work()
        } catch (error) {
          onError(what, error)
          await rest()
        }
      return undefined
    },
    close() {
      closed = true
      for (const wake of wakes) wake()
    },
  }
}
