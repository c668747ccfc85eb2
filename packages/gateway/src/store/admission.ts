/**
 * Converts a notification to the form that limits need: without its content, with the instants that follow from its
 * timeline.
 */
import { delayingLimit, type Notification } from '../model.ts'
import type { Admission } from '../ports.ts'

export function admissionOf(notification: Notification): Admission {
  const {
    content: _,
    data: _data,
    timeline: _timeline,
    decision,
    job: _job,
    bytes: _bytes,
    shared: _shared,
    ...admission
  } = notification
  const counted = countedAt(notification)
  const promised = delayingLimit(notification) === undefined ? undefined : decision.at
  return {
    ...admission,
    policyVersion: decision.policyVersion,
    ...(counted === undefined ? {} : { countedAt: counted }),
    ...(promised === undefined ? {} : { promisedAt: promised }),
  }
}

/** The instant at which it counted for its tenant's and module's limits; undefined until its turn, and if it ended before. */
export function countedAt({
  turnedAt,
  createdAt,
  timeline,
}: Pick<Notification, 'turnedAt' | 'createdAt' | 'timeline'>): number | undefined {
  const first = timeline[1]?.reason
  const isTurned = first === 'tenant_limit' || first === 'module_limit' || first === 'state_unavailable'
  return isTurned ? turnedAt : (turnedAt ?? createdAt)
}
