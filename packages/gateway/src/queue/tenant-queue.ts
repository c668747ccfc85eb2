/** The queue of one tenant in a channel: a FIFO for each priority, the highest priority first. */
import { type Notification, type Priority, priorities } from '../model.ts'
import { Fifo } from './fifo.ts'

/** Critical notifications are ahead of all tenants, in a FIFO of their own. */
export const urgencies = priorities.filter((priority) => priority !== 'critical')

export class TenantQueue {
  readonly tenant: string
  deficit = 0
  size = 0
  /** Created on demand: nearly every tenant uses a single priority. */
  readonly #fifos: { [Urgency in Priority]?: Fifo } = {}

  constructor(tenant: string) {
    this.tenant = tenant
  }

  put(notification: Notification, front: boolean, now: number): void {
    this.#fifos[notification.priority] ??= new Fifo()
    const fifo = this.#fifos[notification.priority]!
    if (front) fifo.unshift(notification, now)
    else fifo.push(notification, now)
    this.size += 1
  }

  fifo(urgency: Priority): Fifo | undefined {
    return this.#fifos[urgency]
  }

  take(): Notification | undefined {
    for (const urgency of urgencies) {
      const item = this.#fifos[urgency]?.shift()
      if (item !== undefined) {
        this.size -= 1
        return item
      }
    }
    return undefined
  }
}
