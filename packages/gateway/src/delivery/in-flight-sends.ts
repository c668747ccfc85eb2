/**
 * Tracks calls that were fired but whose last byte is not yet on the socket (a busy event loop, a connection to be
 * opened). Limits must hold where the provider counts, so a call that is written late is counted again at that
 * instant. While it is not written, it counts as written now whenever another notification for the same recipient is
 * fired. So no window is exceeded, however long calls are delayed and however many are written at once.
 */

import type { Notification } from '../model.ts'
import type { Clock } from '../ports.ts'

/** A call that is not written yet. */
export interface InFlightSend {
  readonly notification: Notification
  /** Counts it as written now if that is later than it counts so far; resolves when it is counted. */
  countLate(now: number): Promise<void> | undefined
}

/** The unwritten calls of all channels, by recipient: bounded by the accounts' concurrency. */
export class InFlightSends {
  readonly #clock: Pick<Clock, 'now'>
  readonly #byRecipient = new Map<string, Set<InFlightSend>>()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  get isEmpty(): boolean {
    return this.#byRecipient.size === 0
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

  /** Counts unwritten calls of the same recipients as written now, before other notifications are fired. */
  async recount(fired: readonly { readonly notification: Notification }[]): Promise<void> {
    const now = this.#clock.now()
    for (const { notification } of fired)
      for (const inFlightSend of this.#byRecipient.get(keyOf(notification)) ?? [])
        await inFlightSend.countLate(now)
  }
}

const keyOf = ({ tenant, to }: Notification): string => `${tenant}\0${to.id}`
