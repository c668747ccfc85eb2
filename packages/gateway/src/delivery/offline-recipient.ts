/**
 * Decides a notification for an offline recipient. It is called right before sending and before any limit counts the
 * notification, because presence can change until then. Pure.
 */
import {
  advance,
  awayDetail,
  type Channel,
  type Move,
  type Notification,
  type TimelineEvent,
} from '../model.ts'

export type Absent =
  /** Waits until the recipient connects. */
  (
    | { readonly kind: 'wait' }
    /** Ends at once, like a notification without an address. */
    | { readonly kind: 'drop' }
    /** Is admitted anew, once, under the limits of another channel. */
    | { readonly kind: 'fallback'; readonly channel: Channel }
  ) & {
    /** Maximum wait, ms; then it expires. */
    readonly forMs: number
  }

export interface Away {
  readonly notification: Notification
  /** Events in memory that are not yet on record. */
  readonly events: readonly TimelineEvent[]
  readonly absent: Absent
  readonly now: number
}

export function away({ notification, events, absent, now }: Away): Move {
  const move = (event: Omit<TimelineEvent, 'at'>, patch: Parameters<typeof advance>[2] = {}): Move =>
    advance(notification, [...events, { at: now, ...event, detail: awayDetail }], patch)

  if (absent.kind === 'drop') return move({ status: 'suppressed', reason: 'invalid_address' })
  if (absent.kind === 'fallback' && notification.requestedChannel === undefined) {
    const patch = {
      channel: absent.channel,
      requestedChannel: notification.channel,
      undecided: true,
      dueAt: now,
    }
    return move({ status: 'scheduled', reason: 'retry' }, patch)
  }
  const since = notification.timeline.find(({ detail }) => detail === awayDetail)?.at ?? now
  const until = since + absent.forMs
  if (until <= now) return move({ status: 'expired' })
  return move(
    { status: 'scheduled', reason: 'retry' },
    { dueAt: Math.min(until, notification.expiresAt ?? until) },
  )
}
