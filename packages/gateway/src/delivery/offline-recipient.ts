/**
 * What becomes of a notification for somebody who is not connected. It is asked at the moment at which the
 * notification would leave, before any limit counts it: whether a recipient is there shows then and not earlier. Pure.
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
  /** It waits until the recipient connects. */
  (
    | { readonly kind: 'wait' }
    /** It ends at once, as one without an address. */
    | { readonly kind: 'drop' }
    /** It is decided anew, once, under the limits of another channel. */
    | { readonly kind: 'fallback'; readonly channel: Channel }
  ) & {
    /** What waits does so at most so long, ms, and then ends as expired. */
    readonly forMs: number
  }

export interface Away {
  readonly notification: Notification
  /** What memory knows beyond the record. */
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
