/**
 * Virtual time. Nothing happens by itself: `run` carries the gateway from one due timer to the next, and the clock
 * jumps over the time between. After each step all pending work comes to rest before the clock moves on, so a day
 * takes as long as its work.
 */

import { Heap } from '../heap.ts'
import type { Clock } from '../ports.ts'

export interface VirtualClock extends Clock {
  /** Runs everything that is due up to the instant, and sets the clock to it. */
  runUntil(instant: number): Promise<void>
  /** Lets pending work come to rest, without moving the clock. */
  settle(): Promise<void>
  /** The instant of the next due timer. */
  next(): number | undefined
}

interface Timer {
  callback: (() => void) | undefined
}

export function createVirtualClock(start: number): VirtualClock {
  let now = start
  const timers = new Heap<Timer>()
  let soon: (() => void)[] = []

  /** Waits one turn of the real event loop: when it ends, every promise that could continue has continued. */
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

  async function settle(): Promise<void> {
    await turn()
    while (soon.length > 0) {
      const callbacks = soon
      soon = []
      for (const callback of callbacks) callback()
      await turn()
    }
  }

  function dropCancelled(): void {
    while (timers.least?.callback === undefined && timers.size > 0) timers.pop()
  }

  return {
    now: () => now,
    monotonic: () => now,
    at(instant, callback) {
      const timer: Timer = { callback }
      timers.push(Math.max(instant, now), timer)
      return () => {
        timer.callback = undefined
      }
    },
    soon(callback) {
      soon.push(callback)
    },
    settle,
    next() {
      dropCancelled()
      return timers.leastKey
    },
    async runUntil(instant) {
      await settle()
      for (;;) {
        dropCancelled()
        const due = timers.leastKey
        if (due === undefined || due > instant) break
        now = due
        // Everything due at one instant starts together, as it would within one turn of a real loop.
        while (timers.leastKey !== undefined && timers.leastKey <= now) timers.pop()?.callback?.()
        await settle()
      }
      now = Math.max(now, instant)
    },
  }
}
