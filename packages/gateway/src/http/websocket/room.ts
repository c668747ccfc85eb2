/**
 * One tenant's part of the hub: its connections, the subscriptions of each channel, and the throttle of
 * published messages. Equal channel names of two tenants are different channels, since they are in different
 * rooms.
 */
import type { Throttle } from './throttle.ts'

export interface Subscriber {
  /**
   * Appends a frame to the output of this connection; `written` is called with true where the socket took it.
   */
  send(frame: Buffer, written?: (taken: boolean) => void): void
}

export class Room {
  readonly throttle: Throttle
  /** Open connections, including those that are closing. */
  connections = 0
  /** Refused connections above the limit that have not closed yet. */
  refused = 0
  readonly #channels = new Map<string, Set<Subscriber>>()

  constructor(throttle: Throttle) {
    this.throttle = throttle
  }

  subscribers(channel: string): ReadonlySet<Subscriber> | undefined {
    return this.#channels.get(channel)
  }

  /** The channels that have subscribers. */
  channels(): Iterable<string> {
    return this.#channels.keys()
  }

  /** Returns true for the first subscription of the channel. */
  subscribe(channel: string, subscriber: Subscriber): boolean {
    const subscribers = this.#channels.get(channel)
    if (subscribers === undefined) this.#channels.set(channel, new Set([subscriber]))
    else subscribers.add(subscriber)
    return subscribers === undefined
  }

  unsubscribe(channel: string, subscriber: Subscriber): void {
    const subscribers = this.#channels.get(channel)
    subscribers?.delete(subscriber)
    if (subscribers?.size === 0) this.#channels.delete(channel)
  }

  /** Sends a frame to every subscriber when the rate admits it; the frame is made once for all of them. */
  publish(
    channel: string,
    frame: Buffer,
    onSent: (reached: number) => void,
  ): ReturnType<Throttle['publish']> {
    return this.throttle.publish(frame.length, () => {
      const subscribers = this.#channels.get(channel)
      if (subscribers !== undefined) for (const subscriber of subscribers) subscriber.send(frame)
      onSent(subscribers?.size ?? 0)
    })
  }

  /** True where the room holds no state: no connection, no waiting message, and empty windows. */
  get isEmpty(): boolean {
    return this.connections === 0 && this.refused === 0 && this.throttle.isIdle()
  }
}
