/**
 * Adds feedback to the timelines that answers show. An event changes no state, so it stands in a record of its own and
 * is joined here; `status` is what the notification has.
 */
import type { Notification, Reason, TimelineEvent } from '../model.ts'
import type { FeedbackEvent, FeedbackRecord } from '../ports/feedback.ts'

export type FeedbackReads = Pick<FeedbackRecord, 'of'>

/** Adds the events of each notification behind its own, one question a tenant. */
export async function withFeedback(
  record: FeedbackReads,
  notifications: readonly Notification[],
): Promise<readonly Notification[]> {
  if (notifications.length === 0) return notifications
  const events = new Map<string, FeedbackEvent[]>()
  for (const [tenant, ofTenant] of Map.groupBy(notifications, (each) => each.tenant))
    for (const event of await record.of(
      tenant,
      ofTenant.map(({ id }) => id),
    )) {
      const known = events.get(event.notificationId)
      if (known === undefined) events.set(event.notificationId, [event])
      else known.push(event)
    }
  return notifications.map((each) => {
    const found = events.get(each.id)?.filter(({ tenant }) => tenant === each.tenant)
    if (found === undefined || found.length === 0) return each
    return { ...each, timeline: [...each.timeline, ...found.map((event) => entryOf(event, each.status))] }
  })
}

function entryOf(
  { at, type, account, detail }: FeedbackEvent,
  status: TimelineEvent['status'],
): TimelineEvent {
  return {
    at,
    status,
    // The types of feedback are reasons of this entry alone: no state of a notification has one.
    reason: type as string as Reason,
    ...(account === undefined ? {} : { account }),
    ...(detail === undefined ? {} : { detail }),
  }
}
