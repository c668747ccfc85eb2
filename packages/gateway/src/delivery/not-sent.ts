/**
 * Computes the next state of notifications for which no call is made: dead letters, expired and suppressed ones, and
 * those that wait once more. Pure.
 */
import {
  advance,
  type DeadCause,
  type Move,
  type Notification,
  type Reason,
  type TimelineEvent,
} from '../model.ts'

type Events = readonly TimelineEvent[]

/** Makes a dead letter; it stays until it is redriven or expires. */
export function deadLetter(
  notification: Notification,
  events: Events,
  now: number,
  cause: { readonly reason: DeadCause; readonly detail?: string },
): Move {
  const event = { at: now, status: 'dead', ...cause } as const
  const dueAt = notification.expiresAt ?? Number.MAX_SAFE_INTEGER
  return advance(notification, [...events, event], { dueAt })
}

/** Makes a dead letter of a notification whose row cannot be read: nothing is sent by guess. */
export function damaged(
  notification: Notification,
  events: Events,
  now: number,
  row: string | undefined,
): Move {
  return deadLetter(notification, events, now, { reason: 'poison', detail: `damaged in the store: ${row}` })
}

export function expired(notification: Notification, events: Events, now: number): Move {
  return advance(notification, [...events, { at: now, status: 'expired' }])
}

export function suppressed(notification: Notification, events: Events, now: number, reason: Reason): Move {
  return advance(notification, [...events, { at: now, status: 'suppressed', reason }])
}

export interface Postponement {
  readonly at: number
  readonly reason: Reason
  readonly detail?: string
  /**
   * The policy that gave the instant; that of its decision where it is absent. What a policy postponed moves up under
   * another one, also under the one by which it was decided before.
   */
  readonly policyVersion?: string
}

/** Schedules it again, without an attempt. If it would expire before `at`, it is scheduled for its expiry instead. */
export function postponed(
  notification: Notification,
  events: Events,
  now: number,
  { at, policyVersion, ...why }: Postponement,
): Move {
  const { decision, expiresAt = at } = notification
  return advance(notification, [...events, { at: now, status: 'scheduled', ...why }], {
    dueAt: Math.min(at, expiresAt),
    ...(policyVersion === undefined || policyVersion === decision.policyVersion
      ? {}
      : { decision: { ...decision, policyVersion } }),
  })
}
