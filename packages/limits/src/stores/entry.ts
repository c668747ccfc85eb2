/**
 * An id that the limiter knows: one place in several streams at one instant. The event logs hold the instant itself; an
 * entry says where to find it again.
 */
import type { EventLog } from './event-log.ts'

export interface Entry {
  /** Epoch milliseconds. */
  at: number
  weight: number
  /** True where it counts as gone, rather than being booked. */
  fired: boolean
  /** True where it gives way to a reservation of high priority. */
  readonly low: boolean
  /** Each once. Other entries may share the array. */
  eventLogs: readonly EventLog[]
}

/** Makes an entry. A function and no class: shorter in a user's bundle. */
export function entryOf(
  at: number,
  weight: number,
  fired: boolean,
  low: boolean,
  eventLogs: readonly EventLog[],
): Entry {
  return { at, weight, fired, low, eventLogs }
}
