/**
 * Isolates notifications on which the program itself fails although the store and the limits answer. Each waits in
 * memory with growing delays, so that it holds up no other, and becomes a dead letter with the error when it has
 * failed often enough. If the store or the limits do not answer at all, nothing is isolated: that concerns every
 * notification.
 */

import type { Move, Notification } from '../model.ts'
import type { Clock } from '../ports.ts'
import type { Ledger, Scheduler } from '../stages.ts'
import { deadLetter } from './not-sent.ts'

export interface QuarantineOptions {
  readonly ledger: Pick<Ledger, 'live'>
  readonly scheduler: Pick<Scheduler, 'postpone'>
  readonly clock: Pick<Clock, 'now'>
}

export interface Quarantine {
  /** Isolates a notification; returns the move to a dead letter if it has failed too often. */
  add(notification: Notification, error: unknown): Move | undefined
  /** Forgets the failures of a notification that was handed over. */
  release(id: string): void
}

/** First delay, ms; each is twice the one before: 25 s in all. */
const firstWaitMs = 200
const failuresMax = 8
/** Notifications remembered with their failures. Beyond it the oldest is forgotten and starts again at zero. */
const rememberedMax = 10_000
/** Characters of an error message in a timeline. */
const detailMax = 200

export function createQuarantine({ ledger, scheduler, clock }: QuarantineOptions): Quarantine {
  const failures = new Map<string, number>()

  return {
    add(notification, error) {
      const { id, expiresAt } = notification
      const now = clock.now()
      const count = (failures.get(id) ?? 0) + 1
      failures.delete(id)
      if (count < failuresMax) {
        failures.set(id, count)
        if (failures.size > rememberedMax) failures.delete(failures.keys().next().value!)
        const at = now + firstWaitMs * 2 ** (count - 1)
        scheduler.postpone(notification, Math.min(at, expiresAt ?? at))
        return undefined
      }
      const detail = `it cannot be handed over: ${messageOf(error)}`.slice(0, detailMax)
      return deadLetter(notification, ledger.live(id)?.events ?? [], now, { reason: 'poison', detail })
    },
    release(id) {
      if (failures.size > 0) failures.delete(id)
    },
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
