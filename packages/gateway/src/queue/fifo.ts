/**
 * A FIFO whose items can be returned to the front, with the instant at which each was queued. Taking from the front
 * moves an index, not the array.
 */
import type { Notification } from '../model.ts'

export class Fifo {
  #items: Notification[] = []
  #since: number[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  /** The instant at which the first item was queued: no other has waited longer. */
  get oldest(): number | undefined {
    return this.#since[this.#head]
  }

  /** The instant at which the first item was due. */
  get oldestDue(): number | undefined {
    return this.#items[this.#head]?.dueAt
  }

  push(item: Notification, now: number): void {
    this.#items.push(item)
    this.#since.push(now)
  }

  /** Returns an item to the front. It counts as having waited as long as the first. */
  unshift(item: Notification, now: number): void {
    const since = this.oldest ?? now
    if (this.#head > 0) {
      this.#head -= 1
      this.#items[this.#head] = item
      this.#since[this.#head] = since
    } else {
      this.#items.unshift(item)
      this.#since.unshift(since)
    }
  }

  shift(): Notification | undefined {
    const item = this.#items[this.#head]
    if (item === undefined) return undefined
    this.#head += 1
    if (this.#head === this.#items.length) {
      this.#items.length = 0
      this.#since.length = 0
      this.#head = 0
    } else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#since = this.#since.slice(this.#head)
      this.#head = 0
    }
    return item
  }
}
