/**
 * Implements the queue of one process: references in memory to notifications on record. Each channel has a FIFO per
 * tenant and priority. Tenants take turns by deficit round robin (Shreedhar and Varghese, 1996), each message costing
 * one, so that a tenant with a million messages delays the others by no more than its weight. Critical notifications
 * are ahead of all tenants' FIFOs.
 */
import type { Channel, Notification } from '../model.ts'
import { channels } from '../model.ts'
import type { Clock, Queue } from '../ports.ts'
import { Fifo } from './fifo.ts'
import { TenantQueue, urgencies } from './tenant-queue.ts'

export interface EmbeddedQueueOptions {
  readonly clock: Pick<Clock, 'now'>
  /** Weight of a tenant in the round robin. @defaultValue 1 for every tenant */
  readonly weightOf?: (tenant: string) => number
}

const done = Promise.resolve()

class ChannelQueue {
  /** Notifications in this channel, critical ones included. */
  size = 0
  readonly critical = new Fifo()
  readonly tenants = new Map<string, TenantQueue>()
  /** Tenants with something to send; `#turn` is the index of the next. */
  #turns: TenantQueue[] = []
  #turn = 0
  readonly wakers = new Set<(arrived: number) => void>()
  readonly #weightOf: (tenant: string) => number

  constructor(weightOf: (tenant: string) => number) {
    this.#weightOf = weightOf
  }

  put(notification: Notification, front: boolean, now: number): void {
    this.size += 1
    if (notification.priority === 'critical') {
      if (front) this.critical.unshift(notification, now)
      else this.critical.push(notification, now)
      return
    }
    let queue = this.tenants.get(notification.tenant)
    if (queue === undefined) {
      queue = new TenantQueue(notification.tenant)
      this.tenants.set(notification.tenant, queue)
      this.#turns.push(queue)
    }
    queue.put(notification, front, now)
  }

  pull(max: number): Notification[] {
    const taken: Notification[] = []
    while (taken.length < max) {
      const item = this.critical.shift() ?? this.#next()
      if (item === undefined) break
      taken.push(item)
    }
    this.size -= taken.length
    return taken
  }

  /** Returns the least of these instants over all FIFOs of the channel. */
  least(instant: 'oldest' | 'oldestDue'): number | undefined {
    let least = this.critical[instant]
    for (const queue of this.#turns) {
      for (const urgency of urgencies) {
        const own = queue.fifo(urgency)?.[instant]
        if (own !== undefined && (least === undefined || own < least)) least = own
      }
    }
    return least
  }

  /** Takes notifications queued at this instant or earlier, lowest priority first. */
  takeOverdue(since: number, max: number): Notification[] {
    const taken: Notification[] = []
    const takeFrom = (fifo: Fifo | undefined): number => {
      if (fifo === undefined) return 0
      const before = taken.length
      while (taken.length < max && fifo.oldest !== undefined && fifo.oldest <= since)
        taken.push(fifo.shift()!)
      return taken.length - before
    }
    for (const urgency of urgencies.toReversed()) {
      for (const queue of this.#turns) queue.size -= takeFrom(queue.fifo(urgency))
    }
    takeFrom(this.critical)
    this.size -= taken.length
    return taken
  }

  #next(): Notification | undefined {
    while (this.#turns.length > 0) {
      if (this.#turn >= this.#turns.length) this.#turn = 0
      const queue = this.#turns[this.#turn]!
      if (queue.deficit < 1) {
        queue.deficit += this.#weightOf(queue.tenant)
        if (queue.deficit < 1) {
          this.#turn += 1
          continue
        }
      }
      const item = queue.take()
      if (item === undefined) {
        // A tenant with an empty queue leaves the round robin and forfeits its deficit.
        this.#turns.splice(this.#turn, 1)
        this.tenants.delete(queue.tenant)
        continue
      }
      queue.deficit -= 1
      if (queue.deficit < 1) this.#turn += 1
      return item
    }
    return undefined
  }
}

export function createEmbeddedQueue(options: EmbeddedQueueOptions): Queue {
  const { clock } = options
  const weightOf = options.weightOf ?? (() => 1)
  const queues = new Map<Channel, ChannelQueue>(
    channels.map((channel) => [channel, new ChannelQueue(weightOf)]),
  )
  const queueOf = (channel: Channel): ChannelQueue => queues.get(channel)!

  return {
    push(notifications) {
      const now = clock.now()
      const woken = new Map<ChannelQueue, number>()
      for (const notification of notifications) {
        const queue = queueOf(notification.channel)
        woken.set(queue, woken.get(queue) ?? queue.size)
        queue.put(notification, false, now)
      }
      for (const [queue, before] of woken) {
        const arrived = queue.size - before
        for (const wake of queue.wakers) wake(arrived)
      }
      return done
    },

    giveBack(notifications) {
      const now = clock.now()
      for (let i = notifications.length - 1; i >= 0; i -= 1) {
        const notification = notifications[i]!
        queueOf(notification.channel).put(notification, true, now)
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

    critical: (channel) => queueOf(channel).critical.length,
    oldest: (channel) => queueOf(channel).least('oldest'),
    oldestDue: (channel) => queueOf(channel).least('oldestDue'),
    takeOverdue: (channel, since, max) => queueOf(channel).takeOverdue(since, max),

    close() {
      return Promise.resolve()
    },
  }
}
