/**
 * Between firing a notification and its last byte on the socket lies time: a turn of a busy event loop, a connection
 * that must be opened first. Limits are to hold where the provider counts, so a call is counted again when it leaves
 * late; and while it has not left, it counts as leaving now whenever another one for the same recipient is fired. So no
 * window is over, however long a call is held up, and however many leave at once in the end.
 */

import type { Notification, Recipient } from '../model.ts'
import type { Clock } from '../ports.ts'
import type { RecipientLimiter } from '../stages.ts'
import { lateMsMax } from './accounts/account.ts'
import type { Lease } from './pools/lease.ts'

export interface InFlightSendsOptions {
  readonly limiter: Pick<RecipientLimiter, 'left'>
  readonly clock: Pick<Clock, 'now'>
  readonly onError: (what: string, error: unknown) => void
}

/** What the limits have let go. */
export interface SendToTrack {
  readonly notification: Notification
  readonly recipient: Recipient | null
  readonly lease: Lease
  readonly firedAt: number
  /** The provider will say when it leaves; else it leaves now. */
  readonly tells: boolean
}

export interface InFlightSends {
  begin(sendToTrack: SendToTrack): InFlightSend
  /** Counts as leaving now what has not left yet of those for whom something is about to be fired. */
  recount(ready: readonly { readonly notification: Notification }[]): Promise<void>
}

export function createInFlightSends(options: InFlightSendsOptions): InFlightSends {
  const held = new Held(options)
  return {
    begin(sendToTrack) {
      const inFlightSend = new InFlightSend(sendToTrack, held)
      if (sendToTrack.tells) held.add(inFlightSend)
      return inFlightSend
    },
    recount: (ready) => held.recount(ready),
  }
}

/** One call on its way out. */
export class InFlightSend {
  readonly notification: Notification
  readonly recipient: Recipient | null
  readonly lease: Lease
  /** When it counts: when it was fired, or when it left if that was later. */
  at: number
  readonly #held: Held
  #isHeld: boolean

  constructor({ notification, recipient, lease, firedAt, tells }: SendToTrack, held: Held) {
    this.notification = notification
    this.recipient = recipient
    this.lease = lease
    this.at = firedAt
    this.#held = held
    this.#isHeld = tells
  }

  /** It leaves now. */
  leave(): void {
    this.end()
    this.#held.left(this)
  }

  /** The call is over, whether or not it ever left. */
  end(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#held.remove(this)
  }
}

/** What has not left, by recipient. */
class Held {
  readonly #options: InFlightSendsOptions
  readonly #byRecipient = new Map<string, Set<InFlightSend>>()

  constructor(options: InFlightSendsOptions) {
    this.#options = options
  }

  add(inFlightSend: InFlightSend): void {
    const key = keyOf(inFlightSend.notification)
    const theirs = this.#byRecipient.get(key)
    if (theirs === undefined) this.#byRecipient.set(key, new Set([inFlightSend]))
    else theirs.add(inFlightSend)
  }

  remove(inFlightSend: InFlightSend): void {
    const key = keyOf(inFlightSend.notification)
    const theirs = this.#byRecipient.get(key)
    theirs?.delete(inFlightSend)
    if (theirs?.size === 0) this.#byRecipient.delete(key)
  }

  left(inFlightSend: InFlightSend): void {
    const { clock, onError } = this.#options
    const now = clock.now()
    inFlightSend.lease.left(now)
    this.#count(inFlightSend, now).catch((error) => onError('count what has left', error))
  }

  async recount(ready: readonly { readonly notification: Notification }[]): Promise<void> {
    if (this.#byRecipient.size === 0) return
    const now = this.#options.clock.now()
    for (const { notification } of ready) {
      for (const inFlightSend of this.#byRecipient.get(keyOf(notification)) ?? [])
        await this.#count(inFlightSend, now)
    }
  }

  async #count(inFlightSend: InFlightSend, now: number): Promise<void> {
    if (now - inFlightSend.at <= lateMsMax) return
    inFlightSend.at = now
    await this.#options.limiter.left(inFlightSend)
  }
}

const keyOf = ({ tenant, to }: Notification): string => `${tenant}\0${to.id}`
