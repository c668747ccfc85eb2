/**
 * The clock of the process: it starts at the wall clock and from there on follows the monotonic clock. It never
 * steps, so measurements on it (windows, leases, waits, deadlines) are true durations, whatever the wall clock does.
 * The offset of the wall clock is known besides, for times that are shown and read (decision record 0017).
 */
import type { Clock, TimeLine } from '../ports.ts'

export interface SystemClock extends Clock {
  aheadMs(): number
  /** Continues from where the previous process stopped. To be called before anything is measured. */
  continueFrom(line: TimeLine): void
  /** The present position of the clock, for the next process; its offset is exact, also where it is below a step. */
  line(): TimeLine
  /** Reports each step of the wall clock, in ms, within a second. */
  onStep(listener: (byMs: number) => void): () => void
}

export interface SystemClockOptions {
  /** Wall clock. @defaultValue Date.now */
  readonly wall?: () => number
  /** Monotonic clock. @defaultValue performance.now */
  readonly monotonic?: () => number
}

/** Smallest offset that counts as a step of the wall clock, ms: slewed clocks and rounding both stay far below. */
const stepMs = 250
const lookMs = 1_000
/** Longer timers are set again on the way: setTimeout supports 24 days at most. */
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
    monotonic,
    aheadMs: look,
    line: () => ({ at: now(), aheadMs: wall() - now() }),
    continueFrom(line) {
      const wallNow = wall()
      const at = lineAt(wallNow, line)
      originMs = at - monotonic()
      aheadMs = Math.abs(wallNow - at) < stepMs ? 0 : wallNow - at
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
 * Finds where the clock continues when the wall clock reads this: at the recorded offset, as far as that is known. A
 * wall clock that was set back meanwhile would lead into the past; then the clock continues where it was last seen.
 */
export function lineAt(wallNow: number, { at, aheadMs }: TimeLine): number {
  return Math.max(wallNow - aheadMs, at)
}
