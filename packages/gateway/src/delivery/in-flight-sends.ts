/**
 * Tracks calls that were fired but whose last byte is not yet on the socket (a busy event loop, a connection to be
 * opened). Limits must hold where the provider counts, so a call that is written late is counted again at that
 * instant. While it is not written, it counts as written now whenever another notification for the same recipient is
 * fired. So no window is exceeded, however long calls are delayed and however many are written at once.
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

/** Describes a call whose limits were fired. */
export interface SendToTrack {
  readonly notification: Notification
  readonly recipient: Recipient | null
  readonly lease: Lease
  readonly firedAt: number
  /** True if the provider reports when the call is written; otherwise it counts as written now. */
  readonly tells: boolean
}

export interface InFlightSends {
  begin(sendToTrack: SendToTrack): InFlightSend
  /** Counts unwritten calls of the same recipients as written now, before another notification is fired. */
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

/** One call that is not yet answered. */
export class InFlightSend {
  readonly notification: Notification
  readonly recipient: Recipient | null
  readonly lease: Lease
  /** The instant at which it counts: when it was fired, or written if that was later. */
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

  /** Called when the last byte is on the socket. */
  leave(): void {
    this.end()
    this.#held.left(this)
  }

  /** Ends tracking: the call is over, written or not. */
  end(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#held.remove(this)
  }
}

/** Unwritten calls by recipient. */
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
