/**
 * Publishes due notifications to the queue of their tenant. Until the broker has confirmed a message this process holds
 * the notification on record and in memory: whatever becomes of the message, it is lost nowhere. Behind the confirmation
 * the notification is left to the broker. Without a confirmation it leaves through the queue of this process; whoever of
 * both comes first has it, since the record gives it once.
 */
import type { Notification } from '../../model.ts'
import {
  type LeftToBroker,
  type OutgoingMessage,
  type OutgoingQueues,
  outgoingVersion,
} from '../../ports/outgoing.ts'
import type { Clock } from '../../ports.ts'
import type { Ledger } from '../../stages.ts'

export interface PublisherOptions {
  readonly queues: Pick<OutgoingQueues, 'publish'>
  readonly left: Pick<LeftToBroker, 'leave'>
  readonly ledger: Pick<Ledger, 'isCurrent' | 'release'>
  readonly clock: Pick<Clock, 'now'>
  /** The name of this process. */
  readonly member: string
  /** Sends notifications by the queue of this process. */
  readonly sendHere: (notifications: readonly Notification[]) => void
  /** The queue of the tenant has no room: the notification is to be published again later. */
  readonly onFull: (notification: Notification) => void
  readonly onError: (what: string, error: unknown) => void
}

/** Notifications that are left to the broker with one statement. */
const leftMax = 500

export class Publisher {
  readonly #options: PublisherOptions
  /** Notifications that are being published, or wait to be left to the broker, by id. */
  readonly #publishing = new Map<string, Notification>()
  /** Ids that are being left to the broker now. */
  readonly #leaving = new Set<string>()
  #confirmed: Notification[] = []
  #leave: Promise<void> | undefined
  readonly counts = { published: 0, full: 0, unconfirmed: 0 }

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  async publish(notification: Notification): Promise<void> {
    const { queues, ledger, sendHere, onFull } = this.#options
    this.#publishing.set(notification.id, notification)
    const outcome = await queues.publish(this.#messageOf(notification)).catch(() => 'unknown' as const)
    if (outcome === 'queued') this.counts.published += 1
    else if (outcome === 'full') this.counts.full += 1
    else this.counts.unconfirmed += 1
    if (this.#publishing.get(notification.id) !== notification) return
    if (!ledger.isCurrent(notification)) this.#publishing.delete(notification.id)
    else if (outcome === 'queued') {
      this.#confirmed.push(notification)
      this.#leave ??= this.#leaveAll().finally(() => {
        this.#leave = undefined
      })
      await this.#leave
    } else {
      this.#publishing.delete(notification.id)
      // Critical notifications do not wait for room.
      if (outcome === 'full' && notification.priority !== 'critical') onFull(notification)
      else sendHere([notification])
    }
  }

  /**
   * Takes a notification back that is being published, because its message has come to this process: it needs no question
   * to the record. `leaving`: the record is being told; ask again when it has answered.
   */
  takeBack(message: OutgoingMessage): Notification | 'leaving' | undefined {
    const notification = this.#publishing.get(message.id)
    if (notification === undefined) return undefined
    if (this.#leaving.has(message.id)) return 'leaving'
    if (!this.#options.ledger.isCurrent(notification)) return undefined
    this.#publishing.delete(message.id)
    return notification
  }

  async #leaveAll(): Promise<void> {
    const { left, ledger, sendHere, onError } = this.#options
    while (this.#confirmed.length > 0) {
      const isStill = (each: Notification): boolean => this.#publishing.get(each.id) === each
      const batch = this.#confirmed
        .splice(0, leftMax)
        .filter((each) => isStill(each) && ledger.isCurrent(each))
      for (const { id } of batch) this.#leaving.add(id)
      try {
        if (batch.length > 0) await left.leave(batch)
        for (const each of batch) ledger.release(each)
      } catch (error) {
        onError('leave notifications to the broker', error)
        // Left or not: the record refuses them here, or refuses their messages.
        sendHere(batch.filter(ledger.isCurrent))
      }
      for (const each of batch) {
        this.#leaving.delete(each.id)
        if (isStill(each)) this.#publishing.delete(each.id)
      }
    }
  }

  #messageOf(notification: Notification): OutgoingMessage {
    const { tenant, channel, priority } = notification
    const publishedAt = Math.round(this.#options.clock.now())
    return {
      ...outgoingVersion(notification),
      tenant,
      channel,
      priority,
      from: this.#options.member,
      publishedAt,
    }
  }
}
