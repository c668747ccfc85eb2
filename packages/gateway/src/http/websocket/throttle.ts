/**
 * What a tenant publishes: at once within its rate, in order and later above it, and not at all when too much waits
 * already. The rate is exact in every rolling window, and counts what is published, however many it reaches.
 */
import { createLimits, type Limit, limit, memoryStore, type Window } from '@sluice/limits'
import type { Clock } from '../../ports.ts'

export type Published = 'sent' | 'throttled' | 'full'

export interface ThrottleOptions {
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** None: unlimited. */
  readonly windows: readonly Window[]
  /** Each window is kept this much longer: what leaves bunches on its way to those who count it. */
  readonly marginMs: number
  readonly waitingMax: number
  readonly waitingBytesMax: number
}

export interface Throttle {
  publish(bytes: number, send: () => void): Published
  readonly size: number
  /** Whether everything has left and every window is empty again: then it may be forgotten. */
  isIdle(): boolean
  /** Drops what waits. */
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
  /** Of `waiting`: those before it have left. */
  let first = 0
  let bytesWaiting = 0
  let lastAt = Number.NEGATIVE_INFINITY
  let disarm: (() => void) | undefined

  /** How long until the next may leave; 0 when it is counted as leaving now. */
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
    // Moved together once in a while, so that taking the first costs nothing.
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
