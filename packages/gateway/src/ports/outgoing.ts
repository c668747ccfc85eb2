/**
 * The port to a broker with one queue per tenant, `notify.outgoing.{tenant}`, and the store's port for notifications that
 * are left to it. A message only names a notification: the record stays the truth, and whoever takes the message asks
 * the record for the notification. A message that comes twice, or too late, finds nothing there.
 */
import { type Channel, type Notification, type Priority, revisionOf, type Status } from '../model.ts'

/** The version of a notification: the record gives it to whoever names this one and no other. */
export interface OutgoingVersion {
  readonly id: string
  readonly status: Status
  readonly revision: number
  readonly dueAt: number
  readonly attempts: number
}

/** A message in the queue of a tenant. */
export interface OutgoingMessage extends OutgoingVersion {
  readonly tenant: string
  readonly channel: Channel
  readonly priority: Priority
  /** The process that published it (`Members.id`), which holds the notification on record until the broker has confirmed. */
  readonly from: string
  /** Epoch ms. */
  readonly publishedAt: number
}

export function outgoingVersion(notification: Notification): OutgoingVersion {
  const { id, status, dueAt, attempts } = notification
  return { id, status, revision: revisionOf(notification), dueAt, attempts }
}

/** `queued`: the broker has it on disk. `full`: the queue of the tenant has no room. */
export type Published = 'queued' | 'full'

export interface OutgoingDelivery {
  readonly message: OutgoingMessage
  /** Removes the message from the queue. Without effect after the connection was lost: the broker delivers it again. */
  ack(): void
}

/** The state of a queue, as the broker tells it. */
export interface QueueLook {
  /** Messages that no consumer has been given. */
  readonly ready: number
}

/** Hears of the broker. */
export interface OutgoingListener {
  onDelivery(delivery: OutgoingDelivery): void
  /** Messages were lost with the queue: it was missing and has been made anew. */
  onMade(tenant: string): void
  /** The broker can be reached, at the start and again. */
  onOpen(): void
  /** The broker cannot be reached, or takes nothing. It may go on delivering, and deliveries can be acknowledged. */
  onAway(error: unknown): void
  /** The connection that takes is lost: all deliveries that are not acknowledged come again. */
  onReturned(): void
  /** The queue of a tenant is on the broker with other arguments than those of this gateway: it is used as it is. */
  onDiffers(tenant: string, reason: string): void
  /** A message in the queue of a tenant is not of this gateway: it was removed. */
  onForeign(tenant: string): void
}

export interface OutgoingQueues {
  /** Connects, and connects again until `close`. */
  open(listener: OutgoingListener): void
  /** True while messages can be published. */
  isOpen(): boolean
  /**
   * Publishes a message, and makes the queue of its tenant where it is missing. Resolves when the broker has confirmed or
   * refused it. Rejects where that is not known: the broker may have the message or not.
   */
  publish(message: OutgoingMessage): Promise<Published>
  /**
   * Takes the messages of a tenant from now on, also after the connection was lost, at most `prefetch` of them not
   * acknowledged. Again for a tenant: without effect.
   */
  consume(tenant: string, prefetch: number): void
  /** Takes no more messages of a tenant. */
  release(tenant: string): void
  /** Looks at the queue of a tenant; makes it where it is missing. Rejects where the broker does not answer. */
  look(tenant: string): Promise<QueueLook>
  close(): Promise<void>
}

/** Selects notifications of a tenant. */
interface LeftQuery {
  readonly tenant: string
  /** @defaultValue all */
  readonly priority?: Priority
  /** Selects notifications that are due by this instant, epoch ms. */
  readonly dueBy: number
  readonly limit: number
}

/** Notifications on record that are left to the broker: no process holds them, and `claimDue` passes them over. */
export interface LeftToBroker {
  /**
   * Leaves notifications that this process holds to the broker. What it does not hold any more in this version stays as
   * it is.
   */
  leave(notifications: readonly Notification[]): Promise<void>
  /**
   * Takes the notifications of messages: from the answer on this process holds them, as if `claimDue` had given them. A
   * notification is given where it is left to the broker, or held by the process that published the message or by this one
   * (to be asked only for what it does not have in memory), and nothing has changed it; the others are left out.
   */
  take(
    messages: readonly Pick<OutgoingMessage, keyof OutgoingVersion | 'tenant' | 'from'>[],
  ): Promise<readonly Notification[]>
  /** Frees notifications that are left to the broker, earliest due first: `claimDue` finds them again. Returns their number. */
  free(query: LeftQuery): Promise<number>
  /** The tenants of whom notifications are left to the broker. */
  tenants(): Promise<readonly string[]>
}

/** A store that several processes share keeps who is left to a broker on record. */
export interface KeepsLeftToBroker {
  /** Absent in a store of one process. */
  readonly leftToBroker?: LeftToBroker
}

/** The figures of the broker at this process. */
export interface OutgoingReport {
  /** Messages are published and taken; not yet at the start, where the broker is not away either. */
  readonly isOpen: boolean
  readonly awaySince: number | undefined
  readonly tenants: number
  /** Messages that the broker has confirmed, refused because a queue was full, and not answered. */
  readonly published: number
  readonly full: number
  readonly unconfirmed: number
  /** Notifications that were taken from the broker, and messages that named none that this process was to have. */
  readonly taken: number
  readonly superfluous: number
  /** Notifications that were freed because the broker had no message of them any more. */
  readonly repaired: number
}
