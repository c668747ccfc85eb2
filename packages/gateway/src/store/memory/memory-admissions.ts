/** Answers `admissions` over plain values: which notifications limits count, and at which instant. */
import type { Notification, Status } from '../../model.ts'
import type { Admission, AdmissionQuery, CountedQuery, Page } from '../../ports.ts'
import { admissionOf } from '../admission.ts'

export const waits: ReadonlySet<Status> = new Set<Status>(['scheduled', 'queued', 'dead'])
/** Statuses that were never sent, and that do not count for deduplication either. */
const nothingCame: ReadonlySet<Status> = new Set<Status>(['suppressed', 'failed', 'cancelled'])

export const orderOf = (row: Pick<Notification, 'firedAt' | 'suspects' | 'dueAt'>): number =>
  row.firedAt ?? row.suspects?.at(-1) ?? row.dueAt

function ofRecipient(row: Notification, since: number): boolean {
  const held = waits.has(row.status) || row.status === 'sending'
  if (row.firedAt === undefined && row.suspects === undefined && nothingCame.has(row.status)) return false
  return (
    row.createdAt >= since ||
    (row.firedAt ?? 0) >= since ||
    (row.suspects?.at(-1) ?? 0) >= since ||
    (held && row.dueAt >= since)
  )
}

function ofTenant(row: Notification, since: number): boolean {
  return row.createdAt >= since || (row.turnedAt ?? Number.NEGATIVE_INFINITY) >= since
}

/** Answers the question of `admissions`: the newest first. */
export function newestAdmissions(rows: readonly Notification[], query: AdmissionQuery): readonly Admission[] {
  const { recipient, since, limit } = query
  const counts = recipient === undefined ? ofTenant : ofRecipient
  return rows
    .filter((row) => counts(row, since))
    .reverse()
    .sort((a, b) => orderOf(b) - orderOf(a))
    .slice(0, limit)
    .map(admissionOf)
}

const waitsOrLeaves: ReadonlySet<Status> = new Set<Status>(['scheduled', 'digesting', 'queued', 'sending'])

/** Selects a page of what limits count; the cursor is the number of rows that were examined. */
export function countedPage(rows: readonly Notification[], query: CountedQuery): Page<Admission> {
  const { recipient, since, accepted, within, cursor = '0', limit } = query
  const mayHaveLeft = (row: Notification, from: number): boolean =>
    (row.firedAt ?? 0) >= from || (row.suspects?.at(-1) ?? 0) >= from
  let isLaterThere = false
  const counts = (row: Notification): boolean => {
    if (accepted === true) return ofTenant(row, since)
    const isWaiting = waitsOrLeaves.has(row.status)
    if (within !== undefined && isWaiting && row.dueAt > within.to && !isLaterThere) {
      isLaterThere = true
      return true
    }
    if (within !== undefined) return mayHaveLeft(row, within.from) || (isWaiting && row.dueAt <= within.to)
    if (isWaiting) return true
    return recipient === undefined ? mayHaveLeft(row, since) : ofRecipient(row, since)
  }
  const from = Number(cursor)
  const next = from + limit
  return {
    items: rows.slice(from, next).filter(counts).map(admissionOf),
    nextCursor: next < rows.length ? String(next) : null,
  }
}
