/**
 * What stands in the queue, by its end: whatever keeps it there, it ends in time. Most leave before, and are dropped
 * here when there are many of them.
 */

import { Heap } from '../heap.ts'
import type { Notification } from '../model.ts'
import type { Ledger } from '../stages.ts'

/** They are looked through for what has left when there are this many, and then each time they have doubled. */
const sizeMin = 1_024

export class ExpiryTimer {
  readonly #ledger: Pick<Ledger, 'isCurrent' | 'live'>
  #heap = new Heap<Notification>()
  #sizeMax = sizeMin

  constructor(ledger: Pick<Ledger, 'isCurrent' | 'live'>) {
    this.#ledger = ledger
  }

  /** The first end. */
  get next(): number | undefined {
    return this.#heap.leastKey
  }

  watch(notification: Notification): void {
    if (notification.expiresAt === undefined) return
    this.#heap.push(notification.expiresAt, notification)
    if (this.#heap.size > this.#sizeMax) this.#forgetThoseThatLeft()
  }

  /** Those that must end now; what is with a provider does not. */
  take(now: number): readonly Notification[] {
    const over: Notification[] = []
    while (this.#heap.leastKey !== undefined && this.#heap.leastKey <= now) {
      const notification = this.#heap.pop()!
      if (!this.#ledger.isCurrent(notification)) continue
      if (this.#ledger.live(notification.id)?.status !== 'sending') over.push(notification)
    }
    return over
  }

  #forgetThoseThatLeft(): void {
    const kept = new Heap<Notification>()
    for (let each = this.#heap.pop(); each !== undefined; each = this.#heap.pop()) {
      if (this.#ledger.isCurrent(each)) kept.push(each.expiresAt!, each)
    }
    this.#heap = kept
    this.#sizeMax = Math.max(sizeMin, 2 * kept.size)
  }
}
