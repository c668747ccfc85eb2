/**
 * Time as the process has it: a line that begins at the wall clock and from there on follows the monotonic clock. It
 * never steps, so what is measured on it (windows, leases, waits, deadlines) is a duration, whatever becomes of the
 * wall clock. By how much that is ahead is known besides, for what people read and write (decision record 0017).
 */
import type { Clock, TimeLine } from '../ports.ts'

export interface SystemClock extends Clock {
  aheadMs(): number
  /** Goes on where the line of the process before ended. To be called before anything is measured. */
  continueFrom(line: TimeLine): void
  /** How the line stands: for the next process. */
  line(): TimeLine
  /** Tells each step of the wall clock, by so many ms, within a second. */
  onStep(listener: (byMs: number) => void): () => void
}

export interface SystemClockOptions {
  /** @defaultValue Date.now */
  readonly wall?: () => number
  /** @defaultValue performance.now */
  readonly monotonic?: () => number
}

/** A wall clock that is off by less has not stepped: clocks that are slewed and roundings of both stay far below. */
const stepMs = 250
const lookMs = 1_000
/** Longer timers are armed again on the way: setTimeout knows 24 days at most. */
const timerMsMax = 3_600_000

export function createSystemClock({
  wall = Date.now,
  monotonic = () => performance.now(),
}: SystemClockOptions = {}): SystemClock {
  let originMs = wall() - monotonic()
  let aheadMs = 0
  const listeners = new Set<(byMs: number) => void>()
  let looking: NodeJS.Timeout | undefined

  const now = (): number => Math.floor(originMs + monotonic())

  function look(): number {
    const byMs = wall() - now() - aheadMs
    if (Math.abs(byMs) < stepMs) return aheadMs
    aheadMs += byMs
    for (const listener of listeners) listener(byMs)
    return aheadMs
  }

  return {
    now,
    aheadMs: look,
    line: () => ({ at: now(), aheadMs: look() }),
    continueFrom(line) {
      const wallNow = wall()
      const at = lineAt(wallNow, line)
      originMs = at - monotonic()
      aheadMs = wallNow - at
    },
    onStep(listener) {
      listeners.add(listener)
      looking ??= setInterval(look, lookMs).unref()
      return () => {
        listeners.delete(listener)
        if (listeners.size > 0) return
        clearInterval(looking)
        looking = undefined
      }
    },
    at(instant, callback) {
      let timer: NodeJS.Timeout
      const arm = (): void => {
        const remaining = instant - now()
        // Node fires a timer up to 1 ms early by its own rounding; the check below makes that harmless.
        timer = setTimeout(tick, Math.min(Math.max(remaining, 0), timerMsMax))
      }
      const tick = (): void => {
        if (now() >= instant) callback()
        else arm()
      }
      arm()
      return () => clearTimeout(timer)
    },
    soon(callback) {
      setImmediate(callback)
    },
  }
}

/**
 * Where the line goes on when the wall clock reads this: it has kept its distance since, as far as anybody knows. A
 * wall clock that was set back meanwhile would lead into the past; then the line goes on where it was last seen.
 */
export function lineAt(wallNow: number, { at, aheadMs }: TimeLine): number {
  return Math.max(wallNow - aheadMs, at)
}
