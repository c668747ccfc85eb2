/**
 * Composes delivery. For each channel a worker (channel-worker.ts) takes as many notifications from the queue as
 * there are leases; a send batch (send-batch.ts) fires the limits for all of them; a send attempt (send-attempt.ts)
 * hands one to its provider; the completer (completer.ts) commits the results. A lease lasts until its result is
 * committed, so calls in flight are bounded by the accounts' concurrency.
 */

import { advance, type DeadCause, type Move, type Notification } from '../model.ts'
import type { Clock, Queue, Random, Store } from '../ports.ts'
import type { Attempted, Contents, Ledger, RecipientLimiter, Recipients, Scheduler } from '../stages.ts'
import { createAutomaticRedrive } from './automatic-redrive.ts'
import { type ChannelWorker, createChannelWorker } from './channel-worker.ts'
import { createCompleter } from './completer.ts'
import { InFlightCounter } from './in-flight-counter.ts'
import { createInFlightSends } from './in-flight-sends.ts'
import type { Composer } from './message.ts'
import type { Pool } from './pools/pool.ts'
import type { Route } from './pools/route.ts'
import { createRetries } from './retry.ts'
import { createSendAttempts } from './send-attempt.ts'
import { createSendBatches, type SendBatchesOptions } from './send-batch.ts'

export interface DispatcherOptions extends Pick<SendBatchesOptions, 'mayReceive' | 'quietAt' | 'away'> {
  readonly routes: readonly Route[]
  readonly queue: Queue
  readonly store: Pick<Store, 'deadLetters'>
  readonly ledger: Ledger
  readonly limiter: RecipientLimiter
  readonly recipients: Recipients
  readonly contents: Pick<Contents, 'of'>
  readonly scheduler: Scheduler
  readonly composer: Composer
  readonly clock: Clock
  readonly random: Random
  /** Computes the next state of a notification from the provider's answer. */
  readonly settle: (attempted: Attempted) => Move
  /** Releases what a notification holds when it ends without having been delivered. */
  readonly releaseHolds: (held: Notification, ended: Notification['status']) => Promise<void>
  readonly onError: (what: string, error: unknown) => void
}

export interface Dispatcher {
  start(): void
  /** Called when an account of the pool went out or came back. */
  changed(pool: Pool): void
  /** Starts no new call and resolves when all calls in flight have settled (graceful shutdown). */
  drain(): Promise<void>
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { ledger, limiter, recipients, clock, onError } = options
  const inFlight = new InFlightCounter()
  const retries = createRetries(options)
  const inFlightSends = createInFlightSends(options)
  const completer = createCompleter({ ...options, inFlight })
  const attempts = createSendAttempts({ ...options, inFlightSends, retries, completer, inFlight })
  const batches = createSendBatches({ ...options, attempts, inFlightSends, retries, completer })
  const workers = options.routes.map((route) =>
    createChannelWorker({
      ...options,
      route,
      automaticRedrive: createAutomaticRedrive({ ...options, route }),
      release: (...batch) => track('dispatch', batches.release(...batch)),
      shed: (...overdue) => track('shed', bury(...overdue)),
    }),
  )

  function track(what: string, work: Promise<void>): void {
    inFlight.begin()
    work.catch((error) => onError(what, error)).finally(() => inFlight.end())
  }

  /** Makes dead letters of notifications that waited for capacity in vain, and releases their reservations. */
  async function bury(
    worker: ChannelWorker,
    overdue: readonly Notification[],
    cause: DeadCause,
  ): Promise<void> {
    await Promise.all(
      overdue.filter(ledger.isCurrent).map(async (notification) => {
        const { id, tenant, to, priority, expiresAt } = notification
        retries.forget(id)
        const event = { at: clock.now(), status: 'dead', reason: cause } as const
        const dueAt = expiresAt ?? Number.MAX_SAFE_INTEGER
        const events = [...(ledger.live(id)?.events ?? []), event]
        await completer.write(advance(notification, events, { dueAt }))
        try {
          await limiter.cancel([{ notification, recipient: await recipients.find(tenant, to.id) }])
        } finally {
          worker.automaticRedrive.note(priority)
        }
      }),
    )
    worker.automaticRedrive.wake()
  }

  return {
    start() {
      for (const worker of workers) worker.start()
    },
    changed(pool) {
      workers.find(({ route }) => route.pools.includes(pool))!.changed()
    },
    async drain() {
      await Promise.all(workers.map((worker) => worker.stop()))
      await inFlight.idle()
    },
  }
}
