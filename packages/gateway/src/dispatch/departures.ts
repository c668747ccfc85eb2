/**
 * Between firing a notification and its last byte on the socket lies time: a turn of a busy event loop, a connection
 * that must be opened first. Limits are to hold where the provider counts, so a call is counted again when it leaves
 * late; and while it has not left, it counts as leaving now whenever another one for the same person is fired. So no
 * window is over, however long a call is held up, and however many leave at once in the end.
 */

import type { Book } from '../doors.ts'
import type { Notification, Recipient } from '../model.ts'
import type { Clock } from '../ports.ts'
import { type Lease, lateMsMax } from './pool.ts'

export interface DeparturesOptions {
  readonly book: Pick<Book, 'left'>
  readonly clock: Pick<Clock, 'now'>
  readonly onTrouble: ((what: string, error: unknown) => void) | undefined
}

/** One call on its way out. */
export interface Departure {
  readonly lease: Lease
  /** When the limits counted it first. */
  readonly firedAt: number
  /** When it counts: when it was fired, or when it left if that was later. */
  readonly at: number
  /** It leaves now. */
  leave(): void
  /** The call is over, whether or not it ever left. */
  end(): void
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

interface Held {
  readonly notification: Notification
  readonly person: Recipient | null
  at: number
}

export function createDepartures({ book, clock, onTrouble }: DeparturesOptions): Departures {
  /** What has not left, by person. */
  const held = new Map<string, Set<Held>>()

  async function count(one: Held, now: number): Promise<void> {
    if (now - one.at <= lateMsMax) return
    one.at = now
    await book.left(one)
  }

  function forget(key: string, one: Held): void {
    const theirs = held.get(key)
    theirs?.delete(one)
    if (theirs?.size === 0) held.delete(key)
  }

  return {
    begin({ notification, person, lease, firedAt, tells }) {
      const one: Held = { notification, person, at: firedAt }
      const key = keyOf(notification)
      if (tells) {
        const theirs = held.get(key)
        if (theirs === undefined) held.set(key, new Set([one]))
        else theirs.add(one)
      }
      return {
        lease,
        firedAt,
        get at() {
          return one.at
        },
        leave() {
          forget(key, one)
          const now = clock.now()
          lease.left(now)
          count(one, now).catch((error) => onTrouble?.('count what has left', error))
        },
        end: () => forget(key, one),
      }
    },
    async recount(ready) {
      if (held.size === 0) return
      const now = clock.now()
      for (const { notification } of ready) {
        for (const one of held.get(keyOf(notification)) ?? []) await count(one, now)
      }
    },
  }
}

const keyOf = ({ tenant, to }: Notification): string => `${tenant}\0${to.id}`
