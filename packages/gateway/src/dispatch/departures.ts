/**
 * Between firing a notification and its last byte on the socket lies time: a turn of a busy event loop, a connection
 * that must be opened first. Limits are to hold where the provider counts, so a call is counted again when it leaves
 * late; and while it has not left, it counts as leaving now whenever another one for the same person is fired. So no
 * window is over, however long a call is held up, and however many leave at once in the end.
 */

import type { Book } from '../doors.ts'
import type { Notification, Recipient } from '../model.ts'
import type { Clock } from '../ports.ts'
import { type Lease, lateMsMax } from './lease.ts'

export interface DeparturesOptions {
  readonly book: Pick<Book, 'left'>
  readonly clock: Pick<Clock, 'now'>
  readonly onTrouble: (what: string, error: unknown) => void
}

/** What the limits have let go. */
export interface Departing {
  readonly notification: Notification
  readonly person: Recipient | null
  readonly lease: Lease
  readonly firedAt: number
  /** The provider will say when it leaves; else it leaves now. */
  readonly tells: boolean
}

export interface Departures {
  begin(departing: Departing): Departure
  /** Counts as leaving now what has not left yet of those for whom something is about to be fired. */
  recount(ready: readonly { readonly notification: Notification }[]): Promise<void>
}

export function createDepartures(options: DeparturesOptions): Departures {
  const held = new Held(options)
  return {
    begin(departing) {
      const departure = new Departure(departing, held)
      if (departing.tells) held.add(departure)
      return departure
    },
    recount: (ready) => held.recount(ready),
  }
}

/** One call on its way out. */
export class Departure {
  readonly notification: Notification
  readonly person: Recipient | null
  readonly lease: Lease
  /** When it counts: when it was fired, or when it left if that was later. */
  at: number
  readonly #held: Held
  #isHeld: boolean

  constructor({ notification, person, lease, firedAt, tells }: Departing, held: Held) {
    this.notification = notification
    this.person = person
    this.lease = lease
    this.at = firedAt
    this.#held = held
    this.#isHeld = tells
  }

  /** It leaves now. */
  leave(): void {
    this.end()
    this.#held.left(this)
  }

  /** The call is over, whether or not it ever left. */
  end(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#held.remove(this)
  }
}

/** What has not left, by person. */
class Held {
  readonly #options: DeparturesOptions
  readonly #byPerson = new Map<string, Set<Departure>>()

  constructor(options: DeparturesOptions) {
    this.#options = options
  }

  add(departure: Departure): void {
    const key = keyOf(departure.notification)
    const theirs = this.#byPerson.get(key)
    if (theirs === undefined) this.#byPerson.set(key, new Set([departure]))
    else theirs.add(departure)
  }

  remove(departure: Departure): void {
    const key = keyOf(departure.notification)
    const theirs = this.#byPerson.get(key)
    theirs?.delete(departure)
    if (theirs?.size === 0) this.#byPerson.delete(key)
  }

  left(departure: Departure): void {
    const { clock, onTrouble } = this.#options
    const now = clock.now()
    departure.lease.left(now)
    this.#count(departure, now).catch((error) => onTrouble('count what has left', error))
  }

  async recount(ready: readonly { readonly notification: Notification }[]): Promise<void> {
    if (this.#byPerson.size === 0) return
    const now = this.#options.clock.now()
    for (const { notification } of ready) {
      for (const departure of this.#byPerson.get(keyOf(notification)) ?? []) await this.#count(departure, now)
    }
  }

  async #count(departure: Departure, now: number): Promise<void> {
    if (now - departure.at <= lateMsMax) return
    departure.at = now
    await this.#options.book.left(departure)
  }
}

const keyOf = ({ tenant, to }: Notification): string => `${tenant}\0${to.id}`
