/**
 * The way out, put together. For each channel a channel worker (channel-worker.ts) takes notifications from the queue, as many as there
 * are leases; a round (send-batch.ts) asks the limits for all of them once more; a call (send-attempt.ts) hands one over; and a
 * settlement (completer.ts) brings what became of it on record. A lease lasts until then, so what is in flight is
 * bounded by the accounts' concurrency.
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
  /** What an answer makes of the notification. */
  readonly settle: (attempted: Attempted) => Move
  /** What ends without having been delivered gives back what it holds. */
  readonly releaseHolds: (held: Notification, ended: Notification['status']) => Promise<void>
  readonly onError: (what: string, error: unknown) => void
}

export interface Dispatcher {
  start(): void
  /** An account of the pool went out or came back. */
  changed(pool: Pool): void
  /** Starts nothing new and resolves when what is in flight has settled. */
  drain(): Promise<void>
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { ledger, limiter, recipients, clock, onError } = options
  const inFlight = new InFlightCounter()
  const retries = createRetries(options)
  const inFlightSends = createInFlightSends(options)
  const completer = createCompleter({ ...options, inFlight })
  const calls = createSendAttempts({ ...options, inFlightSends, retries, completer, inFlight })
  const rounds = createSendBatches({ ...options, calls, inFlightSends, retries, completer })
  const workers = options.routes.map((route) =>
    createChannelWorker({
      ...options,
      route,
      automaticRedrive: createAutomaticRedrive({ ...options, route }),
      release: (...round) => track('dispatch', rounds.release(...round)),
      shed: (...overdue) => track('shed', bury(...overdue)),
    }),
  )

  function track(what: string, work: Promise<void>): void {
    inFlight.begin()
    work.catch((error) => onError(what, error)).finally(() => inFlight.end())
  }

  /** What has waited for capacity in vain becomes a dead letter, and holds no instant in the limits any more. */
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
