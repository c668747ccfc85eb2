/**
 * The sandbox's record of calls: counters since the start, and the last calls in a ring. It counts the rolling
 * windows of an account with code of its own, so that it can verify the limits of the gateway independently.
 */
import type { Message } from '../ports.ts'
import type { Fate, SandboxRate } from './behaviour.ts'

/** The message of a call; over a network no more may be known than an id and an address. */
export type SandboxMessage = Pick<Message, 'id' | 'tenant' | 'channel' | 'to'>

export interface SandboxCall<M extends SandboxMessage = SandboxMessage> {
  /** Arrival, epoch ms. */
  readonly at: number
  readonly account: string
  readonly message: M
  readonly fate: Fate
  /** True when the recipient got the message, whatever the caller was told. */
  readonly arrived: boolean
}

export interface SandboxCounters {
  readonly calls: number
  /** Messages that reached their recipient. */
  readonly arrived: number
  readonly fates: Readonly<Record<Fate, number>>
  /** Calls during a `Retry-After` that was already answered. */
  readonly whileBlocked: number
}

/** A request as it came, for tests of its exact bytes. */
export interface SeenRequest {
  readonly at: number
  readonly shape: string
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, unknown>>
  /** The body as text; an encrypted body (Web Push) stands here in base64. */
  readonly body: string
}

/** Filter of calls; absent fields match all. */
export interface SandboxFilter {
  readonly recipient?: string
  readonly tenant?: string
  readonly account?: string
  readonly channel?: string
  readonly id?: string
  readonly fate?: Fate
}

/** True when a message with this fate reaches its recipient. */
export function arrives(fate: Fate): boolean {
  return fate === 'deliver' || fate === 'reset_after_accept' || fate === 'hang_after_accept'
}

/** The instants at which calls were let through, at most `max` of them: the oldest decides about the next. */
export class RollingCount {
  readonly #rate: SandboxRate
  readonly #instants: Float64Array
  #next = 0
  #size = 0
  /** The last instant that is no longer kept. */
  #before = Number.NEGATIVE_INFINITY

  constructor(rate: SandboxRate) {
    this.#rate = rate
    this.#instants = new Float64Array(rate.max)
  }

  /** When the next call fits, epoch ms; `Infinity` where none ever does. */
  freeAt(): number {
    if (this.#rate.max === 0) return Number.POSITIVE_INFINITY
    if (this.#size < this.#rate.max) return Number.NEGATIVE_INFINITY
    return this.#instants[this.#next]! + this.#rate.windowMs
  }

  /** True when more than `max` calls lie in the window that ends now, the newest of them included. */
  isOver(now: number): boolean {
    return this.#rate.max === 0 || this.#before + this.#rate.windowMs > now
  }

  add(now: number): void {
    if (this.#rate.max === 0) return
    if (this.#size === this.#rate.max) this.#before = this.#instants[this.#next]!
    this.#instants[this.#next] = now
    this.#next = (this.#next + 1) % this.#rate.max
    if (this.#size < this.#rate.max) this.#size += 1
  }
}

/** The last `keep` calls, oldest first. */
export class CallRing<M extends SandboxMessage> {
  readonly #keep: number
  #calls: SandboxCall<M>[] = []
  #next = 0

  constructor(keep: number) {
    this.#keep = keep
  }

  add(call: SandboxCall<M>): void {
    if (this.#calls.length < this.#keep) {
      this.#calls.push(call)
      return
    }
    if (this.#keep === 0) return
    this.#calls[this.#next] = call
    this.#next = this.#next + 1 === this.#keep ? 0 : this.#next + 1
  }

  find(filter: SandboxFilter, arrivedOnly: boolean): readonly SandboxCall<M>[] {
    const found: SandboxCall<M>[] = []
    for (let index = 0; index < this.#calls.length; index += 1) {
      const call = this.#calls[(this.#next + index) % this.#calls.length]!
      if ((!arrivedOnly || call.arrived) && fits(call, filter)) found.push(call)
    }
    return found
  }

  clear(): void {
    this.#calls = []
    this.#next = 0
  }
}

function fits({ account, message, fate }: SandboxCall, filter: SandboxFilter): boolean {
  return (
    (filter.recipient === undefined || filter.recipient === message.to.id) &&
    (filter.tenant === undefined || filter.tenant === message.tenant) &&
    (filter.account === undefined || filter.account === account) &&
    (filter.channel === undefined || filter.channel === message.channel) &&
    (filter.id === undefined || filter.id === message.id) &&
    (filter.fate === undefined || filter.fate === fate)
  )
}
