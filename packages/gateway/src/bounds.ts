/** Selects which of a tenant's two bounds (architecture, invariant 7) a waiting notification counts against. Pure. */
import type { Notification, Reason, Status } from './model.ts'

/** Detail of the event that makes a notification a dead letter because no pool serves its channel. */
export const unservedDetail = 'no pool serves its channel'

/** True if it is a dead letter because no pool serves its channel: then it counts in no bound. */
export function isUnserved({ status, timeline }: Pick<Notification, 'status' | 'timeline'>): boolean {
  return status === 'dead' && timeline.at(-1)?.detail === unservedDetail
}

/** The bound in which a notification counts in its current state. */
export function boundFor(notification: Notification): 'queue' | 'waiting' | undefined {
  if (isUnserved(notification)) return undefined
  return boundOf(notification.status, notification.decision.reason)
}

/** The tenant's bound (architecture, invariant 7) in which a notification of this status and reason counts. */
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
