/**
 * The queue of one process: references in memory to what is on record. Each channel has a line per tenant and
 * urgency; tenants take turns by deficit round robin (Shreedhar and Varghese, 1996), every message costing one, so
 * that a tenant with a million messages delays the others by no more than its weight. Critical ones stand before
 * all tenants' lines.
 */
import type { Channel, Notification, Priority } from '../../model.ts'
import { channels, priorities } from '../../model.ts'
import type { Queue } from '../../ports.ts'

export interface EmbeddedQueueOptions {
  /** A tenant's share of the turns. @defaultValue 1 for everyone */
  readonly weightOf?: (tenant: string) => number
}

/** First in, first out, with a way back to the front. Taking from the front moves an index, not the array. */
class Line {
  #items: Notification[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: Notification): void {
    this.#items.push(item)
  }

  unshift(item: Notification): void {
    if (this.#head > 0) this.#items[--this.#head] = item
    else this.#items.unshift(item)
  }

  shift(): Notification | undefined {
    const item = this.#items[this.#head]
    if (item === undefined) return undefined
    this.#head += 1
    if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }
}

const urgencies = priorities.filter((priority) => priority !== 'critical')

class TenantLines {
  readonly tenant: string
  deficit = 0
  size = 0
  readonly #lines = Object.fromEntries(priorities.map((priority) => [priority, new Line()])) as Record<
    Priority,
    Line
  >

  constructor(tenant: string) {
    this.tenant = tenant
  }

  put(notification: Notification, front: boolean): void {
    const line = this.#lines[notification.priority]
    if (front) line.unshift(notification)
    else line.push(notification)
    this.size += 1
  }

  take(): Notification | undefined {
    for (const urgency of urgencies) {
      const item = this.#lines[urgency].shift()
      if (item !== undefined) {
        this.size -= 1
        return item
      }
    }
    return undefined
  }
}

class ChannelQueue {
  readonly critical = new Line()
  readonly tenants = new Map<string, TenantLines>()
  /** Tenants with something to send, the one whose turn it is first. */
  #turns: TenantLines[] = []
  #turn = 0
  readonly wakers = new Set<() => void>()
  readonly #weightOf: (tenant: string) => number

  constructor(weightOf: (tenant: string) => number) {
    this.#weightOf = weightOf
  }

  get size(): number {
    let size = this.critical.length
    for (const lines of this.#turns) size += lines.size
    return size
  }

  put(notification: Notification, front: boolean): void {
    if (notification.priority === 'critical') {
      if (front) this.critical.unshift(notification)
      else this.critical.push(notification)
      return
    }
    let lines = this.tenants.get(notification.tenant)
    if (lines === undefined) {
      lines = new TenantLines(notification.tenant)
      this.tenants.set(notification.tenant, lines)
      this.#turns.push(lines)
    }
    lines.put(notification, front)
  }

  pull(max: number): Notification[] {
    const taken: Notification[] = []
    while (taken.length < max) {
      const item = this.critical.shift() ?? this.#next()
      if (item === undefined) break
      taken.push(item)
    }
    return taken
  }

  #next(): Notification | undefined {
    while (this.#turns.length > 0) {
      if (this.#turn >= this.#turns.length) this.#turn = 0
      const lines = this.#turns[this.#turn]!
      if (lines.deficit < 1) {
        lines.deficit += this.#weightOf(lines.tenant)
        if (lines.deficit < 1) {
          this.#turn += 1
          continue
        }
      }
      const item = lines.take()
      if (item === undefined) {
        // An empty line leaves the round and forfeits what it had saved.
        this.#turns.splice(this.#turn, 1)
        this.tenants.delete(lines.tenant)
        continue
      }
      lines.deficit -= 1
      if (lines.deficit < 1) this.#turn += 1
      return item
    }
    return undefined
  }
}

export function createEmbeddedQueue(options: EmbeddedQueueOptions = {}): Queue {
  const weightOf = options.weightOf ?? (() => 1)
  const queues = new Map<Channel, ChannelQueue>(
    channels.map((channel) => [channel, new ChannelQueue(weightOf)]),
  )
  const queueOf = (channel: Channel): ChannelQueue => queues.get(channel)!

  return {
    push(notifications) {
      const woken = new Set<ChannelQueue>()
      for (const notification of notifications) {
        const queue = queueOf(notification.channel)
        queue.put(notification, false)
        woken.add(queue)
      }
      for (const queue of woken) for (const wake of queue.wakers) wake()
      return Promise.resolve()
    },

    giveBack(notifications) {
      for (let i = notifications.length - 1; i >= 0; i -= 1) {
        const notification = notifications[i]!
        queueOf(notification.channel).put(notification, true)
      }
    },

    pull(channel, max) {
      return queueOf(channel).pull(max)
    },

    subscribe(channel, wake) {
      queueOf(channel).wakers.add(wake)
    },

    size(channel) {
      if (channel !== undefined) return queueOf(channel).size
      let size = 0
      for (const queue of queues.values()) size += queue.size
      return size
    },

    close() {
      return Promise.resolve()
    },
  }
}
