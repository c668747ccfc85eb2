/**
 * Between firing a notification and its last byte on the socket lies time: a turn of a busy event loop, a connection
 * that must be opened first. Limits are to hold where the provider counts, so a call is counted again when it leaves
 * late; and while it has not left, it counts as leaving now whenever another one for the same person is fired. So no
 * window is over, however long a call is held up, and however many leave at once in the end.
 */
import type { Notification, Recipient } from '../model.ts'
import type { Book, Clock } from '../ports.ts'
import type { Lease } from './pool.ts'

export interface DeparturesOptions {
  readonly book: Pick<Book, 'left'>
  readonly clock: Pick<Clock, 'now'>
  readonly onTrouble: ((what: string, error: unknown) => void) | undefined
}

/** One call on its way out. */
export interface Departure {
  readonly firedAt: number
  /** When it counts: when it was fired, or when it left if that was later. */
  readonly at: number
  /** It leaves now. */
  leave(): void
  /** The call is over, whether or not it ever left. */
  end(): void
}

export interface Departures {
  /** `tells`: the provider will say when it leaves; else it leaves now. */
  begin(notification: Notification, person: Recipient | null, lease: Lease, tells: boolean): Departure
  /** Counts as leaving now what has not left yet of those for whom something is about to be fired. */
  recount(ready: readonly { readonly notification: Notification }[]): Promise<void>
}

/** What left later than it was counted by less than this is not counted again: a quarter of the usual margin. */
const lateMsMax = 5

interface Held {
  readonly notification: Notification
  readonly person: Recipient | null
  readonly lease: Lease
  at: number
}

export function createDepartures({ book, clock, onTrouble }: DeparturesOptions): Departures {
  /** What has not left, by person. */
  const held = new Map<string, Set<Held>>()

  async function count(one: Held, now: number): Promise<void> {
    if (now - one.at <= lateMsMax) return
    one.at = now
    one.lease.left(now)
    await book.left(one)
  }

  function forget(key: string, one: Held): void {
    const theirs = held.get(key)
    theirs?.delete(one)
    if (theirs?.size === 0) held.delete(key)
  }

  return {
    begin(notification, person, lease, tells) {
      const firedAt = clock.now()
      const one: Held = { notification, person, lease, at: firedAt }
      const key = keyOf(notification)
      if (tells) {
        const theirs = held.get(key)
        if (theirs === undefined) held.set(key, new Set([one]))
        else theirs.add(one)
      }
      return {
        firedAt,
        get at() {
          return one.at
        },
        leave() {
          forget(key, one)
          count(one, clock.now()).catch((error) => onTrouble?.('count what has left', error))
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
