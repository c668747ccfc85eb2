/** Rows of the store in memory: their order, their version, and a page of them. */
import { SluiceError } from '../../errors.ts'
import { type Notification, revisionOf } from '../../model.ts'
import type { Page } from '../../ports.ts'
import { waits } from './memory-admissions.ts'

export const byId = (a: Notification, b: Notification): number => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)
export const ended = ({ status }: Notification): boolean => !waits.has(status) && status !== 'digesting'

/** Nothing that a move can change has changed since. */
export function sameVersion(now: Notification, before: Notification): boolean {
  return (
    now === before ||
    (now.status === before.status &&
      now.dueAt === before.dueAt &&
      now.attempts === before.attempts &&
      revisionOf(now) === revisionOf(before))
  )
}

export function page(
  rows: readonly Notification[],
  cursor: string | undefined,
  limit: number,
): Page<Notification> {
  const from = cursor === undefined ? 0 : rows.findIndex((row) => row.id === cursor) + 1
  if (from === 0 && cursor !== undefined)
    throw new SluiceError('INVALID_REQUEST', 'The cursor is not one of this list.')
  const items = rows.slice(from, from + limit)
  return { items, nextCursor: from + limit < rows.length ? items.at(-1)!.id : null }
}
