/**
 * Sleeps of background work, which a stop ends at once: pauses between two tries, and between two slices of a long walk.
 * Beside them stand the delay until the next try (backoff), and work that is repeated until it is done.
 */
import { concernsAll, isStateAway } from './errors.ts'
import type { Clock } from './ports.ts'

const longestMs = 60_000
/**
 * While the record or the limits are away nothing succeeds, and all of it is to be done soon after they are back, ms. Where
 * thousands are tried again, so many are in a millisecond at most, for each try costs the gateway something.
 */
const awayMs = 2_000
const triesPerMs = 1

/**
 * The delay until the next try, ms: `firstMs` after the first failure, and twice as long with each further one.
 * @param failures - failures in a row before this one
 * @param error - the reason of this one, where it is known
 * @param tried - how many are tried again at present
 */
export function retryDelayMs(firstMs: number, failures: number, error: unknown, tried: number): number {
  const isAway = error !== undefined && (concernsAll(error) || isStateAway(error))
  const max = isAway ? Math.max(awayMs, tried / triesPerMs) : longestMs
  return Math.min(max, firstMs * 2 ** Math.min(failures, 30))
}

export interface Sleeper {
  /** Resolves after so many ms, or at `wakeAll`. */
  sleep(ms: number): Promise<void>
  /** Ends all sleeps that have begun. */
  wakeAll(): void
}

export function createSleeper(clock: Pick<Clock, 'now' | 'at'>): Sleeper {
  /** The functions that end a sleep: as many as there are tries that wait for their repetition. */
  const sleeping = new Set<() => void>()

  return {
    sleep: (ms) =>
      new Promise((resolve) => {
        const wake = (): void => {
          disarm()
          sleeping.delete(wake)
          resolve()
        }
        const disarm = clock.at(clock.now() + ms, wake)
        sleeping.add(wake)
      }),
    wakeAll() {
      for (const wake of sleeping) wake()
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
  const { sleep, wakeAll } = createSleeper(clock)
  let closed = false

  return {
    async run(what, work) {
      while (!closed)
        try {
          return await work()
        } catch (error) {
          onError(what, error)
          await sleep(againMs)
        }
      return undefined
    },
    close() {
      closed = true
      wakeAll()
    },
  }
}
