/** A report of one event, as a caller or a provider's webhook gives it: not correlated to a notification yet. */
import { createHash } from 'node:crypto'
import type { Channel } from '../model.ts'
import type { FeedbackType } from '../ports/feedback.ts'

export interface Report {
  readonly type: FeedbackType
  /** The instant at which it happened, epoch ms. */
  readonly at: number
  /**
   * The same instant as the reporter told it, epoch ms: what it is on the time line differs after a step of the clock, and
   * between processes. @defaultValue `at`
   */
  readonly toldAt?: number
  /** The notification, where the report names it. */
  readonly notificationId?: string
  /** The provider's own id of the message. */
  readonly providerMessageId?: string
  /** The recipient's address, as the provider names it. */
  readonly address?: string
  /** True for a bounce after which the address reaches nobody. */
  readonly permanent?: boolean
  readonly detail?: string
  /** The provider's own id of the event. @defaultValue the event is known by its content */
  readonly eventId?: string
  /** True for STOP: the recipient to whom the account last sent at `address` leaves the whole channel. */
  readonly isStop?: boolean
}

/** The source of reports: a tenant reports its own notifications, an account those that it sent. */
export type Reporter =
  | { readonly tenant: string }
  | { readonly tenant?: undefined; readonly channel: Channel; readonly account: string }

/** The longest detail that is kept, characters. */
const detailMax = 500

/** Identifies an event within its notification: the same report again has the same key. */
export function keyOf({ eventId, type, at, toldAt = at, permanent, detail, isStop }: Report): string {
  const said =
    eventId === undefined
      ? [type, toldAt, permanent ?? false, detail ?? '', isStop ?? false]
      : [eventId, type]
  return createHash('sha256').update(JSON.stringify(said)).digest('hex').slice(0, 32)
}

/** Makes a text of a provider one line of bounded length, without characters that no store takes. */
export function cleanDetail(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const clean = text
    .slice(0, detailMax)
    .toWellFormed()
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim()
  return clean === '' ? undefined : clean
}
