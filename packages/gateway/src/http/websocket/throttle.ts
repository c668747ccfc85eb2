/**
 * Throttles a tenant's published messages: sent at once within its rate, in order and later above it, and
 * refused when too many wait already. The rate is exact in every rolling window, and counts published messages,
 * however many subscribers they reach.
 */
import { createLimits, type Limit, limit, memoryStore, type Window } from '@sluice/limits'
import type { Clock } from '../../ports.ts'

export type Published = 'sent' | 'throttled' | 'full'

export interface ThrottleOptions {
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** None: unlimited. */
  readonly windows: readonly Window[]
  /** Each window is extended by this: messages bunch on their way to the receivers that count them. */
  readonly marginMs: number
  readonly waitingMax: number
  readonly waitingBytesMax: number
}

export interface Throttle {
  publish(bytes: number, send: () => void): Published
  readonly size: number
  /** True where nothing waits and every window is empty: the throttle may be forgotten. */
  isIdle(): boolean
  /** Drops the waiting messages. */
  stop(): void
}

interface Waiting {
  readonly bytes: number
  readonly send: () => void
}

const subject = 'tenant'
const togetherAt = 1_024

export function createThrottle({
  clock,
  windows,
  marginMs,
  waitingMax,
  waitingBytesMax,
}: ThrottleOptions): Throttle {
  const longestMs = Math.max(0, ...windows.map((window) => window.windowMs)) + marginMs
  const rules: readonly Limit[] = windows.length === 0 ? [] : [limit('websocket', windows.map(textOf))]
  const limits = createLimits({ store: memoryStore({ now: clock.now }), marginMs })
  const waiting: Waiting[] = []
  /** The index into `waiting`: earlier ones have been sent. */
  let first = 0
  let bytesWaiting = 0
  let lastAt = Number.NEGATIVE_INFINITY
  let disarm: (() => void) | undefined

  /** Returns the delay until the next may be sent; 0 when it is counted as sent now. */
  function take(): number {
    if (rules.length === 0) return 0
    const { allowed, retryAfterMs } = limits.sync.take(subject, rules)
    if (allowed) lastAt = clock.now()
    return allowed ? 0 : Math.max(1, retryAfterMs)
  }

  function release(): void {
    disarm = undefined
    while (first < waiting.length) {
      const waitMs = take()
      if (waitMs > 0) {
        disarm = clock.at(clock.now() + waitMs, release)
        break
      }
      const { bytes, send } = waiting[first]!
      first += 1
      bytesWaiting -= bytes
      send()
    }
    // Compacted once in a while, so that removing the first is cheap.
    if (first === waiting.length || first > togetherAt) {
      waiting.splice(0, first)
      first = 0
    }
  }

  return {
    publish(bytes, send) {
      if (first === waiting.length) {
        const waitMs = take()
        if (waitMs === 0) {
          send()
          return 'sent'
        }
        disarm = clock.at(clock.now() + waitMs, release)
      }
      if (waiting.length - first >= waitingMax || bytesWaiting + bytes > waitingBytesMax) return 'full'
      waiting.push({ bytes, send })
      bytesWaiting += bytes
      return 'throttled'
    },
    get size() {
      return waiting.length - first
    },
    isIdle: () => first === waiting.length && lastAt + longestMs <= clock.now(),
    stop() {
      disarm?.()
      waiting.length = 0
      first = 0
      bytesWaiting = 0
    },
  }
}

const textOf = (window: Window): string => window.text
