/**
 * The way out, put together. For each channel an outlet (outlet.ts) takes notifications from the queue, as many as there
 * are leases; a round (round.ts) asks the limits for all of them once more; a call (call.ts) hands one over; and a
 * settlement (settlement.ts) brings what became of it on record. A lease lasts until then, so what is in flight is
 * bounded by the accounts' concurrency.
 */

import type { Agenda, Attempted, Book, Contents, Ledger, People } from '../doors.ts'
import { advance, type DeadCause, type Move, type Notification } from '../model.ts'
import type { Clock, Queue, Random, Store } from '../ports.ts'
import { createCalls } from './call.ts'
import { createComeback } from './comeback.ts'
import { createDepartures } from './departures.ts'
import type { Composer } from './message.ts'
import { createOutlet, type Outlet } from './outlet.ts'
import type { Pool } from './pool.ts'
import { createRepetitions } from './repetition.ts'
import { createRounds, type RoundsOptions } from './round.ts'
import type { Route } from './route.ts'
import { createSettlements } from './settlement.ts'
import { Underway } from './underway.ts'

export interface DispatcherOptions extends Pick<RoundsOptions, 'mayReceive' | 'quietAt' | 'away'> {
  readonly routes: readonly Route[]
  readonly queue: Queue
  readonly store: Pick<Store, 'deadLetters'>
  readonly ledger: Ledger
  readonly book: Book
  readonly people: People
  readonly contents: Pick<Contents, 'of'>
  readonly agenda: Agenda
  readonly composer: Composer
  readonly clock: Clock
  readonly random: Random
  /** What an answer makes of the notification. */
  readonly settle: (attempted: Attempted) => Move
  /** What ends without having been delivered gives back what it holds. */
  readonly giveBack: (held: Notification, ended: Notification['status']) => Promise<void>
  readonly onTrouble: (what: string, error: unknown) => void
}

export interface Dispatcher {
  start(): void
  /** An account of the pool went out or came back. */
  changed(pool: Pool): void
  /** Starts nothing new and resolves when what is in flight has settled. */
  drain(): Promise<void>
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { ledger, book, people, clock, onTrouble } = options
  const underway = new Underway()
  const repetitions = createRepetitions(options)
  const departures = createDepartures(options)
  const settlements = createSettlements({ ...options, underway })
  const calls = createCalls({ ...options, departures, repetitions, settlements, underway })
  const rounds = createRounds({ ...options, calls, departures, repetitions, settlements })
  const outlets = options.routes.map((route) =>
    createOutlet({
      ...options,
      route,
      comeback: createComeback({ ...options, route }),
      release: (...round) => track('dispatch', rounds.release(...round)),
      shed: (...overdue) => track('shed', bury(...overdue)),
    }),
  )

  function track(what: string, work: Promise<void>): void {
    underway.begin()
    work.catch((error) => onTrouble(what, error)).finally(() => underway.end())
  }

  /** What has waited for capacity in vain becomes a dead letter, and holds no instant in the limits any more. */
  async function bury(outlet: Outlet, overdue: readonly Notification[], cause: DeadCause): Promise<void> {
    await Promise.all(
      overdue.filter(ledger.isCurrent).map(async (notification) => {
        const { id, tenant, to, priority, expiresAt } = notification
        repetitions.forget(id)
        const event = { at: clock.now(), status: 'dead', reason: cause } as const
        const dueAt = expiresAt ?? Number.MAX_SAFE_INTEGER
        const events = [...(ledger.live(id)?.events ?? []), event]
        await settlements.write(advance(notification, events, { dueAt }))
        try {
          await book.cancel([{ notification, person: await people.find(tenant, to.id) }])
        } finally {
          outlet.comeback.note(priority)
        }
      }),
    )
    outlet.comeback.wake()
  }

  return {
    start() {
      for (const outlet of outlets) outlet.start()
    },
    changed(pool) {
      outlets.find(({ route }) => route.pools.includes(pool))!.changed()
    },
    async drain() {
      await Promise.all(outlets.map((outlet) => outlet.stop()))
      await underway.idle()
    },
  }
}
