/**
 * Throttles a tenant's published messages: sent at once within its rate, in order and later above it, and
 * refused when too many wait already. The rate is exact in every rolling window, and counts published messages,
 * however many subscribers they reach.
 */
import {
  createLimits,
  entriesOf,
  type Limit,
  limit,
  memoryStore,
  type RestoredEntry,
  type Window,
} from '@sluice/limits'
import type { Clock } from '../../ports.ts'

export type Published = 'sent' | 'throttled' | 'full'

/** The number of messages that count as sent now, and how long the next one waits, ms. */
export interface TakenMessages {
  readonly taken: number
  readonly waitMs: number
}

export interface ThrottleOptions {
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** None: unlimited. */
  readonly windows: readonly Window[]
  /** Each window is extended by this: messages bunch on their way to the receivers that count them. */
  readonly marginMs: number
  readonly waitingMax: number
  readonly waitingBytesMax: number
  /**
   * Counts so many messages as sent by one of several processes, or fewer; rejects where nobody can count. @defaultValue
   * this process has the rate for itself
   */
  readonly take?: (rules: readonly Limit[], count: number) => Promise<TakenMessages>
}

export interface Throttle {
  /** Answers without a promise where no other process must be asked. */
  publish(bytes: number, send: () => void): Published | Promise<Published>
  readonly size: number
  /** The messages of this process that its windows still count: others ask for them where the common count was lost. */
  counted(): readonly RestoredEntry[]
  /** True where nothing waits and every window is empty: the throttle may be forgotten. */
  isIdle(): boolean
  /** Drops the waiting messages. */
  stop(): void
}

interface Waiting {
  readonly bytes: number
  readonly send: () => void
  /** Told once whether it was sent without a wait. */
  decide: ((outcome: Published) => void) | undefined
}

const subject = 'tenant'
const togetherAt = 1_024
/** Messages of one question to the other processes. */
const askedMax = 64
/** The common count is asked again after this time where nobody could count, ms. */
const awayMs = 100

export function createThrottle({
  clock,
  windows,
  marginMs,
  waitingMax,
  waitingBytesMax,
  take: takeShared,
}: ThrottleOptions): Throttle {
  const longestMs = Math.max(0, ...windows.map((window) => window.windowMs)) + marginMs
  const rules: readonly Limit[] = windows.length === 0 ? [] : [limit('websocket', windows.map(textOf))]
  const store = memoryStore({ now: clock.now })
  const limits = createLimits({ store, marginMs })
  const waiting: Waiting[] = []
  /** The index into `waiting`: earlier ones have been sent. */
  let first = 0
  let bytesWaiting = 0
  let lastAt = Number.NEGATIVE_INFINITY
  let serial = 0
  let isAsking = false
  let disarm: (() => void) | undefined

  function takeOwn(count: number): TakenMessages {
    for (let taken = 0; taken < count; taken += 1) {
      const { allowed, retryAfterMs } = limits.sync.take(subject, rules)
      if (!allowed) return { taken, waitMs: Math.max(1, retryAfterMs) }
    }
    return { taken: count, waitMs: 0 }
  }

  async function takeTogether(count: number): Promise<TakenMessages> {
    try {
      const answer = await takeShared!(rules, count)
      if (answer.taken > 0) {
        serial += 1
        limits.sync.force(subject, String(serial), rules, { weight: answer.taken })
      }
      return answer
    } catch {
      return { taken: 0, waitMs: awayMs }
    }
  }

  function take(count: number): TakenMessages | Promise<TakenMessages> {
    if (rules.length === 0) return { taken: count, waitMs: 0 }
    return takeShared === undefined ? takeOwn(count) : takeTogether(count)
  }

  /** Sends as many of the first as were taken; the others wait. */
  function sendTaken({ taken, waitMs }: TakenMessages): void {
    if (taken > 0 && rules.length > 0) lastAt = clock.now()
    for (let sent = 0; sent < taken && first < waiting.length; sent += 1) {
      const { bytes, send, decide } = waiting[first]!
      first += 1
      bytesWaiting -= bytes
      decide?.('sent')
      send()
    }
    // Compacted once in a while, so that removing the first is cheap.
    if (first === waiting.length || first > togetherAt) {
      waiting.splice(0, first)
      first = 0
    }
    if (waitMs === 0) return
    for (const each of waiting) {
      each.decide?.('throttled')
      each.decide = undefined
    }
    if (first < waiting.length) disarm = clock.at(clock.now() + waitMs, release)
  }

  /** Sends what may be sent, until something has to wait. */
  function release(): void {
    disarm = undefined
    while (first < waiting.length && disarm === undefined) {
      const answer = take(Math.min(askedMax, waiting.length - first))
      if (answer instanceof Promise) {
        isAsking = true
        void answer.then((given) => {
          isAsking = false
          sendTaken(given)
          if (disarm === undefined) release()
        })
        return
      }
      sendTaken(answer)
    }
  }

  return {
    publish(bytes, send) {
      if (first === waiting.length && (rules.length === 0 || takeShared === undefined)) {
        const { taken, waitMs } = take(1) as TakenMessages
        if (taken === 1) {
          if (rules.length > 0) lastAt = clock.now()
          send()
          return 'sent'
        }
        disarm = clock.at(clock.now() + waitMs, release)
      }
      if (waiting.length - first >= waitingMax || bytesWaiting + bytes > waitingBytesMax) return 'full'
      bytesWaiting += bytes
      const each: Waiting = { bytes, send, decide: undefined }
      waiting.push(each)
      if (disarm !== undefined) return 'throttled'
      const decided = new Promise<Published>((resolve) => {
        each.decide = resolve
      })
      if (!isAsking) release()
      return decided
    },
    get size() {
      return waiting.length - first
    },
    counted: () => (lastAt + longestMs <= clock.now() ? [] : entriesOf(store.sync, subject)),
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
