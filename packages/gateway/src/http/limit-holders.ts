/**
 * Finds the notifications that hold the places of a limit for which another one waits: those of the same recipient
 * whose departures or reservations count on the same stream. The store answers by its index of recipients.
 */
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Countable, Store } from '../ports.ts'
import type { Holder } from './explanation.ts'

export interface LimitHoldersOptions {
  readonly store: Pick<Store, 'admissions'>
  readonly policy: Pick<Policy, 'rulesFor' | 'longestWindowMs'>
}

/** Notifications that one answer names at most. */
const holdersMax = 5
/** The newest admissions of the recipient that are examined. */
const admissionsMax = 200

export async function limitHolders(
  { store, policy }: LimitHoldersOptions,
  notification: Notification,
  now: number,
): Promise<readonly Holder[]> {
  const { tenant, to, decision, dueAt, id } = notification
  const { limit } = decision
  if (limit === undefined) return []
  const streamsOf = (countable: Countable): readonly string[] =>
    policy
      .rulesFor(countable)
      .filter(({ subject }) => subject.recipient !== undefined)
      .flatMap(({ rules }) => rules)
      .filter(({ name }) => name === limit)
      .map(({ stream }) => stream)
  const streams = new Set(streamsOf(notification))
  if (streams.size === 0) return []
  const since = now - policy.longestWindowMs
  const met = await store.admissions({ tenant, recipient: to.id, since, limit: admissionsMax })
  return met
    .filter((each) => each.id !== id && each.undecided !== true)
    .map((each) => ({ notificationId: each.id, at: each.firedAt ?? each.dueAt, streams: streamsOf(each) }))
    .filter((each) => each.at >= since && each.at < dueAt && each.streams.some((one) => streams.has(one)))
    .sort((a, b) => b.at - a.at)
    .slice(0, holdersMax)
    .map(({ notificationId, at }) => ({ notificationId, at }))
    .reverse()
}
