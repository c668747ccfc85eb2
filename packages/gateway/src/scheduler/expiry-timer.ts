/**
 * Expires queued notifications at their `expiresAt`, whatever keeps them in the queue. Most are sent before; their
 * entries are removed here when many have accumulated.
 */

import { Heap } from '../heap.ts'
import type { Notification } from '../model.ts'
import type { Ledger } from '../stages.ts'

/** Entries at which stale ones are removed the first time; after that, each time the number has doubled. */
const sizeMin = 1_024

/** A notification that is about to be sent at its expiry is looked at again after this time, ms. */
const lookAgainMs = 100

export class ExpiryTimer {
  readonly #ledger: Pick<Ledger, 'isCurrent' | 'live'>
  #heap = new Heap<Notification>()
  #sizeMax = sizeMin

  constructor(ledger: Pick<Ledger, 'isCurrent' | 'live'>) {
    this.#ledger = ledger
  }

  /** The earliest expiry. */
  get next(): number | undefined {
    return this.#heap.leastKey
  }

  watch(notification: Notification): void {
    if (notification.expiresAt === undefined) return
    this.#heap.push(notification.expiresAt, notification)
    if (this.#heap.size > this.#sizeMax) this.#removeStale()
  }

  /** Takes the notifications that must expire now, except any that is with a provider. */
  take(now: number): readonly Notification[] {
    const expired: Notification[] = []
    const begun: Notification[] = []
    while (this.#heap.leastKey !== undefined && this.#heap.leastKey <= now) {
      const notification = this.#heap.pop()!
      if (!this.#ledger.isCurrent(notification)) continue
      const { status, events } = this.#ledger.live(notification.id)!
      if (status !== 'sending') expired.push(notification)
      // It has the right to send and is not sent yet: if it gives the right back, it must expire.
      else if (events.at(-1)?.status !== 'sending') begun.push(notification)
    }
    for (const each of begun) this.#heap.push(now + lookAgainMs, each)
    return expired
  }

  #removeStale(): void {
    const kept = new Heap<Notification>()
    for (let each = this.#heap.pop(); each !== undefined; each = this.#heap.pop()) {
      if (this.#ledger.isCurrent(each)) kept.push(each.expiresAt!, each)
    }
    this.#heap = kept
    this.#sizeMax = Math.max(sizeMin, 2 * kept.size)
  }
}
