/**
 * Time as the machine has it. Timers run on the monotonic clock and look at the wall clock at least once a second,
 * so that a step of the wall clock (NTP, an operator) cannot leave what is due waiting for hours.
 */
import type { Clock } from '../ports.ts'

const recheckMs = 1_000

export function createSystemClock(): Clock {
  const now = () => Date.now()
  return {
    now,
    at(instant, callback) {
      let timer: NodeJS.Timeout
      const arm = (): void => {
        const remaining = instant - now()
        // Node fires a timer up to 1 ms early by its own rounding; the check below makes that harmless.
        timer = setTimeout(tick, Math.min(Math.max(remaining, 0), recheckMs))
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
