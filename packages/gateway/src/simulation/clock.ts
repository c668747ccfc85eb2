/**
 * Virtual time. Nothing happens by itself: `run` carries the gateway from one thing that is due to the next, and
 * the clock jumps over what lies between. After each step everything that was set in motion comes to rest before
 * the clock moves on, so a day takes as long as its work.
 */

import { Heap } from '../heap.ts'
import type { Clock } from '../ports.ts'

export interface VirtualClock extends Clock {
  /** Runs everything that is due up to the instant, which it then is. */
  runUntil(instant: number): Promise<void>
  /** Lets what was set in motion come to rest, without moving on. */
  settle(): Promise<void>
  /** The instant of the next thing that is due. */
  next(): number | undefined
}

interface Timer {
  callback: (() => void) | undefined
}

export function createVirtualClock(start: number): VirtualClock {
  let now = start
  const timers = new Heap<Timer>()
  let soon: (() => void)[] = []

  /** One turn of the real event loop: every promise that can go on has gone on when it ends. */
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
