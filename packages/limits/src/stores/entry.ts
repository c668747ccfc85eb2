/**
 * What is known by id: one place in several streams at one instant. The lanes hold the instant itself; an entry says
 * where to find it again.
 */
import type { EventLog } from './event-log.ts'

export class Entry {
  /** Epoch milliseconds. */
  at: number
  weight: number
  /** Whether it counts as gone, rather than being booked. */
  fired: boolean
  /** Whether it gives way to a reservation of high priority. */
  low: boolean
  /** Each once. The array may be another's too. */
  eventLogs: readonly EventLog[]

  constructor(at: number, weight: number, fired: boolean, low: boolean, eventLogs: readonly EventLog[]) {
    this.at = at
    this.weight = weight
    this.fired = fired
    this.low = low
    this.eventLogs = eventLogs
  }
}
