/**
 * Composes delivery. For each channel a worker (channel-worker.ts) takes as many notifications from the queue as
 * there are leases, and makes an attempt (attempt.ts) of each. A send batch (send-batch.ts) asks the limits for all of
 * them together; an attempt hands its notification to the provider; the completer (completer.ts) commits the results.
 * A lease lasts until its result is committed, so calls in flight are bounded by the accounts' concurrency.
 */

import type { Notification } from '../model.ts'
import type { Members } from '../ports/fleet.ts'
import type { Clock, Queue, Random, Store } from '../ports.ts'
import type { Contents, Ledger, RecipientLimiter, Recipients, Scheduler } from '../stages.ts'
import { createAttempts } from './attempts.ts'
import { type AutomaticRedrive, createAutomaticRedrive } from './automatic-redrive.ts'
import { type ChannelWorker, createChannelWorker } from './channel-worker.ts'
import { createCompleter } from './completer.ts'
import { createDeadlines } from './deadline.ts'
import { Endpoints } from './endpoints.ts'
import { InFlightCounter } from './in-flight-counter.ts'
import { InFlightSends, type SubjectKeys } from './in-flight-sends.ts'
import type { Composer } from './message.ts'
import { deadLetter, postponed } from './not-sent.ts'
import type { Route } from './pools/route.ts'
import { createQuarantine } from './quarantine.ts'
import type { Shed } from './queue-expiry.ts'
import { createRetries } from './retry.ts'
import { createSendBatch } from './send-batch.ts'
import type { SendRules } from './send-rules.ts'

export interface DispatcherOptions {
  readonly routes: readonly Route[]
  readonly rules: SendRules
  readonly queue: Queue
  readonly store: Pick<Store, 'deadLetters' | 'isVersioned'>
  readonly ledger: Ledger
  readonly limiter: RecipientLimiter
  /** Returns the keys under which limits count a notification. */
  readonly keysOf: SubjectKeys
  /** Returns the shortest window or distance of a limit, ms. */
  readonly shortestWindowMs: () => number
  readonly recipients: Recipients
  readonly contents: Pick<Contents, 'of'>
  readonly scheduler: Scheduler
  readonly composer: Composer
  readonly members: Pick<Members, 'holds'>
  readonly clock: Clock
  readonly random: Random
  /** Releases what a notification holds when it ends without having been delivered. */
  readonly releaseHolds: (held: Notification, ended: Notification['status']) => Promise<void>
  readonly onError: (what: string, error: unknown) => void
}

export interface Dispatcher {
  start(): void
  /** Starts no new call and resolves when all calls in flight have settled (graceful shutdown). */
  drain(): Promise<void>
  /** Another policy is in force: unwritten calls count under its limits. */
  policyChanged(): void
}

const allHeld = { reason: 'held', detail: 'every account of the channel is held' } as const

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { routes, rules, queue, store, ledger, limiter, recipients, contents, scheduler } = options
  const { composer, members, clock, random, releaseHolds, onError } = options
  const inFlight = new InFlightCounter()
  const retries = createRetries({ random })
  const { keysOf, shortestWindowMs } = options
  const inFlightSends = new InFlightSends({ clock, keysOf, shortestWindowMs, isShared: store.isVersioned })
  const deadlineOf = createDeadlines(clock)
  const quarantine = createQuarantine({ ledger, scheduler, clock })
  const completer = createCompleter({ ledger, scheduler, clock, releaseHolds, inFlight, onError })
  const workers = routes.map(createWorker)

  function createWorker(route: Route): ChannelWorker {
    const automaticRedrive = createAutomaticRedrive({
      route,
      store,
      ledger,
      scheduler,
      queue,
      members,
      clock,
      onError,
    })
    const attempts = createAttempts({
      route,
      ledger,
      limiter,
      composer,
      clock,
      deadlineOf,
      inFlightSends,
      retries,
      completer,
      inFlight,
      onError,
    })
    attempts.onFinished(({ move }) => {
      if (move?.after.status === 'dead') automaticRedrive.note(move.after.priority)
    })
    const endpoints = new Endpoints()
    const send = createSendBatch({
      rules,
      queue,
      store,
      ledger,
      limiter,
      recipients,
      contents,
      scheduler,
      clock,
      endpoints,
      inFlightSends,
      retries,
      quarantine,
      completer,
      onError,
    })
    return createChannelWorker({
      route,
      automaticRedrive,
      queue,
      clock,
      attempts,
      endpoints,
      send,
      shed(overdue, why) {
        inFlight.begin()
        shedOverdue(overdue, why, automaticRedrive)
          .catch((error) => onError('shed', error))
          .finally(() => inFlight.end())
      },
      onError,
    })
  }

  /** Releases a reservation. The answer to the commit may have come late: what was sent since then stays counted. */
  async function giveBackSlot(notification: Notification, takenAt: number): Promise<void> {
    const recipient = await recipients.find(notification.tenant, notification.to.id)
    await limiter.takeBack([{ notification: { ...notification, firedAt: takenAt }, recipient }])
  }

  /**
   * Makes dead letters of notifications that waited for capacity in vain, or schedules them for the end of a hold, and
   * releases their reservations: their limits are asked when they leave.
   */
  async function shedOverdue(
    overdue: readonly Notification[],
    why: Parameters<Shed>[1],
    automaticRedrive: AutomaticRedrive,
  ): Promise<void> {
    await Promise.all(
      overdue.filter(ledger.isCurrent).map(async (notification) => {
        const { id, priority } = notification
        retries.forget(id)
        const takenAt = clock.now()
        const events = ledger.live(id)?.events ?? []
        const move =
          'cause' in why
            ? deadLetter(notification, events, takenAt, { reason: why.cause })
            : postponed(notification, events, takenAt, { at: why.heldUntil, ...allHeld })
        const isWritten = await completer.write(move)
        try {
          // Another gateway may have taken it over and sent it: its call stays counted.
          if (isWritten) await giveBackSlot(notification, takenAt)
        } finally {
          if ('cause' in why) automaticRedrive.note(priority)
        }
      }),
    )
    if ('cause' in why) automaticRedrive.wake()
  }

  return {
    start() {
      for (const worker of workers) worker.start()
    },
    policyChanged: () => inFlightSends.rekey(),
    async drain() {
      await Promise.all(workers.map((worker) => worker.stop()))
      await inFlight.idle()
    },
  }
}
