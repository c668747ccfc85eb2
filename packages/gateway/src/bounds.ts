/** In which of a tenant's two bounds (architecture, invariant 7) a notification counts while it waits. Pure. */
import type { Notification, Reason, Status } from './model.ts'

/** Of the event that makes a dead letter of what waits for a channel that no pool serves. */
export const unservedDetail = 'no pool serves its channel'

/** Whether it is a dead letter because no pool serves its channel: then it counts in no bound. */
export function isUnserved({ status, timeline }: Pick<Notification, 'status' | 'timeline'>): boolean {
  return status === 'dead' && timeline.at(-1)?.detail === unservedDetail
}

/** The bound in which a notification counts as it is now. */
export function boundFor(notification: Notification): 'queue' | 'waiting' | undefined {
  if (isUnserved(notification)) return undefined
  return boundOf(notification.status, notification.decision.reason)
}

/** Which of a tenant's two bounds (architecture, invariant 7) a notification counts against while it waits. */
export function boundOf(status: Status, reason: Reason | undefined): 'queue' | 'waiting' | undefined {
  switch (status) {
    case 'queued':
    case 'sending':
    case 'dead':
      return 'queue'
    case 'scheduled':
      return reason === 'tenant_limit' || reason === 'module_limit' ? 'queue' : 'waiting'
    case 'digesting':
      return 'waiting'
    default:
      return undefined
  }
}
