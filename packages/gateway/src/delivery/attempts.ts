/** Makes the attempts of one channel (attempt.ts), and tells who listens when each of them has finished. */
import type { Notification } from '../model.ts'
import { Attempt, type AttemptContext } from './attempt.ts'
import type { Lease } from './pools/lease.ts'

export interface Attempts {
  /** Begins an attempt; from now on it owns the lease. */
  begin(notification: Notification, lease: Lease): Attempt
  /** Calls the listener with each attempt that has finished. */
  onFinished(listener: (attempt: Attempt) => void): void
}

export function createAttempts(options: Omit<AttemptContext, 'listeners'>): Attempts {
  const listeners: ((attempt: Attempt) => void)[] = []
  const context: AttemptContext = { ...options, listeners }
  return {
    begin(notification, lease) {
      options.inFlight.begin()
      return new Attempt(context, notification, lease)
    },
    onFinished: (listener) => void listeners.push(listener),
  }
}
