/** Answers `admissions` over plain values: which notifications limits count, and at which instant. */
import type { Notification, Status } from '../../model.ts'

export const waits: ReadonlySet<Status> = new Set<Status>(['scheduled', 'queued', 'dead'])
/** Statuses that were never sent, and that do not count for deduplication either. */
const nothingCame: ReadonlySet<Status> = new Set<Status>(['suppressed', 'failed', 'cancelled'])

export const orderOf = (row: Pick<Notification, 'firedAt' | 'suspects' | 'dueAt'>): number =>
  row.firedAt ?? row.suspects?.at(-1) ?? row.dueAt

export function ofRecipient(row: Notification, since: number): boolean {
  const held = waits.has(row.status)
  if (row.firedAt === undefined && row.suspects === undefined && nothingCame.has(row.status)) return false
  return (
    row.createdAt >= since ||
    (row.firedAt ?? 0) >= since ||
    (row.suspects?.at(-1) ?? 0) >= since ||
    (held && row.dueAt >= since)
  )
}

export function ofTenant(row: Notification, since: number): boolean {
  return row.createdAt >= since || (row.turnedAt ?? Number.NEGATIVE_INFINITY) >= since
}
