/**
 * What is known by id: one place in several streams at one instant. The streams hold the instant itself; an entry
 * says where to find it again.
 */
import type { Stream } from './stream.ts'

export class Entry {
  /** Epoch milliseconds. */
  at: number
  weight: number
  /** Whether it counts as gone, rather than being booked. */
  fired: boolean
  /** Whether it gives way to a reservation of high priority. */
  low: boolean
  streams: readonly Stream[]

  constructor(at: number, weight: number, fired: boolean, low: boolean, streams: readonly Stream[]) {
    this.at = at
    this.weight = weight
    this.fired = fired
    this.low = low
    this.streams = streams
  }
}
