/**
 * Sheds queued notifications that waited too long while accounts are out: they become dead letters, lowest priority
 * first, and automatic-redrive.ts returns them. Nothing is shed, however much waits, while all accounts are healthy or
 * while those that are left could be called more often: then it waits for the gateway. Where an operator holds all
 * accounts, notifications wait for the first of them instead.
 */
import type { DeadCause, Notification } from '../model.ts'
import type { Clock, Queue } from '../ports.ts'
import type { Route } from './pools/route.ts'

export interface QueueExpiryOptions {
  readonly route: Route
  readonly queue: Pick<Queue, 'oldest' | 'takeOverdue'>
  readonly clock: Clock
  readonly shed: Shed
}

/** Makes dead letters of notifications, or lets them wait for the end of a hold where an operator holds every account. */
export type Shed = (
  overdue: readonly Notification[],
  why: { readonly cause: DeadCause } | { readonly heldUntil: number },
) => void

export interface QueueExpiry {
  /** Must be called when the queue is not empty, and when an account went out or came back. */
  watch(now: number): void
  /** Ends it for good: calls that end after the stop may still take accounts out, and watch it again. */
  stop(): void
}

/** Notifications taken out at once: their commits share a few transactions. */
const sweepMax = 500
/** The next look after one at which the accounts could be called more often, ms. */
const unusedMs = 50

export function createQueueExpiry({ route, queue, clock, shed }: QueueExpiryOptions): QueueExpiry {
  const { channel, shedAfterMs } = route
  let reducedSince: number | undefined
  let disarm: (() => void) | undefined
  let isStopped = false

  function watch(now: number): void {
    if (shedAfterMs === undefined || isStopped) return
    if (!route.isReduced(now)) {
      reducedSince = undefined
      rest()
      return
    }
    reducedSince ??= now
    if (disarm !== undefined) return
    const oldest = queue.oldest(channel)
    if (oldest === undefined) return
    disarm = clock.at(Math.max(oldest, reducedSince) + shedAfterMs, sweep)
  }

  function sweep(): void {
    disarm = undefined
    const now = clock.now()
    if (shedAfterMs !== undefined && route.isReduced(now)) {
      const oldest = queue.oldest(channel)
      const isOverdue = oldest !== undefined && oldest <= now - shedAfterMs
      // The question takes tokens of accounts that several processes call, and the probe of one that is broken.
      if (isOverdue && route.hasUnused(now)) {
        disarm = clock.at(now + unusedMs, sweep)
        return
      }
      const overdue = queue.takeOverdue(channel, now - shedAfterMs, sweepMax)
      const heldUntil = overdue.length > 0 ? route.heldUntil(now) : undefined
      if (heldUntil !== undefined) shed(overdue, { heldUntil })
      else if (overdue.length > 0) shed(overdue, { cause: route.cause(now) })
    }
    watch(now)
  }

  function rest(): void {
    disarm?.()
    disarm = undefined
  }

  return {
    watch,
    stop() {
      isStopped = true
      rest()
    },
  }
}
