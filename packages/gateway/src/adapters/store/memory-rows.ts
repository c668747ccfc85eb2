/** Rows of the store in memory: their order, their version, and a page of them. */
import { SluiceError } from '../../errors.ts'
import { type Notification, revisionOf } from '../../model.ts'
import type { Page, ScanQuery } from '../../ports.ts'
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

/** `rows` in the order of acceptance. */
export function scan(rows: readonly Notification[], query: ScanQuery): Page<Notification> {
  const { statuses, channels, notPolicy, cursor, limit } = query
  const looked = page(rows, cursor, limit)
  const items = looked.items.filter(
    ({ status, channel, decision }) =>
      statuses.includes(status) &&
      (channels === undefined || channels.includes(channel)) &&
      decision.policyVersion !== notPolicy,
  )
  return { items, nextCursor: looked.nextCursor }
}

/** The value of a key, made when it is missing. */
export function entry<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key)
  if (value === undefined) {
    value = make()
    map.set(key, value)
  }
  return value
}
