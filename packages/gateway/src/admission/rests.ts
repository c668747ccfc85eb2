/** Pauses that a stop ends: between two tries, of the walk at the start, and of subjects whose pass is tried again. */
import { concernsAll } from '../errors.ts'
import type { Clock } from '../ports.ts'

const longestMs = 60_000
/**
 * While the record or the limits are away nothing succeeds, and all of it is to be done soon after they are back, ms. Where
 * thousands are tried again, so many are in a millisecond at most, for each try costs the gateway something.
 */
const awayMs = 2_000
const triesPerMs = 1

/**
 * The delay until the next try, ms: `firstMs` behind the first failure, and twice as long with each further one.
 * @param failures - failures in a row before this one
 * @param error - the reason of this one, where it is known
 * @param tried - how many are tried again at present
 */
export function retryDelayMs(firstMs: number, failures: number, error: unknown, tried: number): number {
  const isAway = error !== undefined && concernsAll(error)
  const max = isAway ? Math.max(awayMs, tried / triesPerMs) : longestMs
  return Math.min(max, firstMs * 2 ** Math.min(failures, 30))
}

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
