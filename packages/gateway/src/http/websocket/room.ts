/**
 * One tenant's part of the hub: its connections, who listens to which channel, and the throttle of what is published.
 * A channel of one tenant is another thing than that of another by standing in another room; no name leads across.
 */
import type { Published, Throttle } from './throttle.ts'

export interface Subscriber {
  /** Puts a frame behind what waits for this connection; `written` hears whether the socket took it. */
  send(frame: Buffer, written?: (taken: boolean) => void): void
}

export class Room {
  readonly throttle: Throttle
  /** Open connections, and those that are about to close. */
  connections = 0
  /** Connections above the limit which have not closed yet. */
  refused = 0
  readonly #channels = new Map<string, Set<Subscriber>>()

  constructor(throttle: Throttle) {
    this.throttle = throttle
  }

  subscribers(channel: string): ReadonlySet<Subscriber> | undefined {
    return this.#channels.get(channel)
  }

  /** Answers whether it is the first of the channel. */
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

  /** To everybody who listens when its turn comes; the frame is made once for all of them. */
  publish(channel: string, frame: Buffer, onSent: (reached: number) => void): Published {
    return this.throttle.publish(frame.length, () => {
      const subscribers = this.#channels.get(channel)
      if (subscribers !== undefined) for (const subscriber of subscribers) subscriber.send(frame)
      onSent(subscribers?.size ?? 0)
    })
  }

  /** Whether nothing would be lost with it: nobody is here, nothing waits, and no rate remembers anything. */
  get isEmpty(): boolean {
    return this.connections === 0 && this.refused === 0 && this.throttle.isIdle()
  }
}
