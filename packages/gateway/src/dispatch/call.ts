/**
 * One call to a provider: the message is rendered, handed over within its time, and what comes back is told to the
 * account, to the one who repeats, and to the record. Nothing in here is awaited: a call is an object that its answer
 * calls back, since frames and promises for each of them cost more than the call.
 */
import type { Payload } from '../content.ts'
import type { Attempted, Book, Ledger } from '../doors.ts'
import type { Move, Notification, Recipient } from '../model.ts'
import type { Clock, Message, SendResult } from '../ports.ts'
import { createDeadlines, type Deadline } from './deadline.ts'
import type { Departure, Departures } from './departures.ts'
import type { EndpointPlace } from './endpoints.ts'
import type { Lease } from './lease.ts'
import { type Composer, compose } from './message.ts'
import type { Outlet } from './outlet.ts'
import type { Repetitions } from './repetition.ts'
import { retryAfterOnLine } from './retry.ts'
import type { Settlements } from './settlement.ts'
import type { Underway } from './underway.ts'

export interface CallsOptions {
  readonly ledger: Pick<Ledger, 'live'>
  readonly book: Pick<Book, 'left' | 'cancel'>
  readonly composer: Composer
  readonly clock: Clock
  readonly departures: Departures
  readonly repetitions: Repetitions
  readonly settlements: Settlements
  readonly underway: Underway
  /** What an answer makes of the notification. */
  readonly settle: (attempted: Attempted) => Move
  readonly onTrouble: (what: string, error: unknown) => void
}

/** What the limits have let go, with an account that may carry it. */
export interface Fired {
  readonly notification: Notification
  /** Its whole content; absent where it is gone from the record. */
  readonly payload: Payload | undefined
  readonly person: Recipient | null
  readonly lease: Lease
  readonly firedAt: number
  /** Where it calls an endpoint of the recipient's: its place there. */
  readonly place?: EndpointPlace | undefined
}

export interface Calls {
  begin(outlet: Outlet, fired: Fired): void
}

export function createCalls(options: CallsOptions): Calls {
  const deadlineOf = createDeadlines(options.clock)

  return {
    begin(outlet, fired) {
      options.underway.begin()
      const { pool } = fired.lease
      const tells = pool.provider.tellsLeaving === true
      const departure = options.departures.begin({ ...fired, tells })
      const call = new Call(options, outlet, departure, fired.place)
      let message: Message
      try {
        if (fired.payload === undefined) throw new Error('Its content is not on record any more.')
        message = compose(options.composer, fired.notification, fired.payload, fired.person)
      } catch (error) {
        call.answered({ outcome: 'rejected', invalidAddress: false, detail: (error as Error).message })
        return
      }
      call.make(message, deadlineOf(pool.timeoutMs), tells)
    },
  }
}

class Call {
  readonly #options: CallsOptions
  readonly #outlet: Outlet
  readonly #departure: Departure
  readonly #place: EndpointPlace | undefined

  constructor(options: CallsOptions, outlet: Outlet, departure: Departure, place: EndpointPlace | undefined) {
    this.#options = options
    this.#outlet = outlet
    this.#departure = departure
    this.#place = place
  }

  make(message: Message, deadline: Deadline, tells: boolean): void {
    const departure = this.#departure
    const { provider } = departure.lease.pool
    const broke = (error: unknown): void => {
      deadline.end()
      this.#options.onTrouble(`provider ${provider.name}`, error)
      this.answered({ outcome: 'failed', detail: (error as Error).message })
    }
    try {
      provider
        .send(message, departure.lease.account, deadline.signal, tells ? () => departure.leave() : undefined)
        .then((result) => {
          deadline.end()
          this.answered(result)
        }, broke)
    } catch (error) {
      broke(error)
    }
  }

  answered(answer: SendResult): void {
    const { lease, notification } = this.#departure
    const { clock, settlements, onTrouble } = this.#options
    try {
      const now = clock.now()
      const result = retryAfterOnLine(answer, clock.aheadMs?.() ?? 0)
      this.#departure.end()
      const tookMs = now - this.#departure.at
      lease.judge(now, result, tookMs)
      this.#place?.end(now, result, tookMs)
      const move = this.#options.settle(this.#attempted(result, now))
      if (move.after.suspects === notification.suspects) settlements.add(move, () => this.#settled(move))
      else this.#settleSuspicion(move)
    } catch (error) {
      onTrouble('settle', error)
      this.#end()
    }
  }

  #attempted(result: SendResult, now: number): Attempted {
    const { notification, lease, at } = this.#departure
    const { provider } = lease.pool
    const { ledger, repetitions } = this.#options
    return {
      notification,
      events: ledger.live(notification.id)?.events ?? [],
      result,
      provider: provider.name,
      account: lease.account.id,
      firedAt: at,
      now,
      idempotent: provider.idempotent,
      retry: repetitions.retryOf(this.#outlet.route, notification, result, lease, now),
    }
  }

  /** What may have arrived counts under a name of its own; its repetition, if there is one, is asked afresh. */
  #settleSuspicion(move: Move): void {
    const { book, settlements, onTrouble } = this.#options
    const { before, after } = move
    const { person } = this.#departure
    const perhaps = { ...before, id: `${before.id}?${after.suspects!.length - 1}` }
    book
      .left({ notification: perhaps, person })
      .then(async () => {
        if (after.status === 'dead') await book.cancel([{ notification: before, person }])
      })
      .catch((error) => onTrouble('count what may have arrived', error))
      .finally(() => settlements.add(move, () => this.#settled(move)))
  }

  #settled({ after }: Move): void {
    if (after.status === 'dead') this.#outlet.comeback.note(after.priority)
    this.#end()
  }

  #end(): void {
    this.#departure.lease.end()
    this.#options.underway.end()
    this.#outlet.freed()
  }
}
