/**
 * Statuses as the small numbers that the stores keep. They are on disk: a number never changes its meaning, and the
 * partial indexes of the migrations name them.
 */
import { isUnserved } from '../bounds.ts'
import type { Notification, Status } from '../model.ts'
import { isFinal, statuses } from '../model.ts'

export const statusCodes = {
  accepted: 0,
  scheduled: 1,
  digesting: 2,
  queued: 3,
  sending: 4,
  dead: 5,
  delivered: 6,
  suppressed: 7,
  merged: 8,
  failed: 9,
  cancelled: 10,
  expired: 11,
} as const satisfies Record<Status, number>

const names: readonly Status[] = statuses.toSorted((a, b) => statusCodes[a] - statusCodes[b])

export function statusOf(code: number): Status {
  const status = names[code]
  if (status === undefined) throw new RangeError(`no state has the code ${code}`)
  return status
}

/** Status codes that `claimDue` returns. The index `due` covers exactly these. */
export const dueCodes = '(1, 3, 5)'
export const finalCodes = `(${statuses
  .filter(isFinal)
  .map((status) => statusCodes[status])
  .join(', ')})`

export function isDueCode(code: number): boolean {
  return code === statusCodes.scheduled || code === statusCodes.queued || code === statusCodes.dead
}

export function isFinalCode(code: number): boolean {
  return code > statusCodes.dead
}

/** True if a tenant's or module's limit made it wait: such notifications count against the tenant's queue. */
function isThrottled(notification: Pick<Notification, 'decision'>): boolean {
  const { reason } = notification.decision
  return reason === 'tenant_limit' || reason === 'module_limit'
}

/**
 * Computes the column `platform` of SQLite, and the 1 that `kind` of PostgreSQL has besides: for a dead letter true if no pool
 * serves its channel, for all others true if a limit of its tenant or module made it wait.
 */
export function throttledFlag(notification: Pick<Notification, 'decision' | 'status' | 'timeline'>): boolean {
  return notification.status === 'dead' ? isUnserved(notification) : isThrottled(notification)
}

/** True if the tallies count notifications of this status separately by that flag. */
export function isCountedApart(code: number): boolean {
  return code === statusCodes.scheduled || code === statusCodes.dead
}
