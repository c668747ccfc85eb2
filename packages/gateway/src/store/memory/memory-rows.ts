/** Helpers of the in-memory store: row order, versions, and pages. */
import { isLegalPath, type Notification, revisionOf } from '../../model.ts'
import type { Change, DeadLetterQuery, GivenRights, ListQuery, Page, ScanQuery, Store } from '../../ports.ts'
import { cursorRefusal } from '../cursor-refusal.ts'
import { waits } from './memory-admissions.ts'

type Due = Pick<Notification, 'id' | 'dueAt'>

export const byId = (a: Pick<Due, 'id'>, b: Pick<Due, 'id'>): number =>
  a.id < b.id ? -1 : a.id > b.id ? 1 : 0
export const byDue = (a: Due, b: Due): number => a.dueAt - b.dueAt || byId(a, b)
export const ended = ({ status }: Notification): boolean => !waits.has(status) && status !== 'digesting'

/** True if no field that a move can change has changed since `before`. */
export function sameVersion(now: Notification, before: Notification): boolean {
  return (
    now === before ||
    (now.status === before.status &&
      now.dueAt === before.dueAt &&
      now.attempts === before.attempts &&
      revisionOf(now) === revisionOf(before))
  )
}

/** Gives the right to send to the versions that are on record; the store of one process gives it without an end. */
export function rightsFor(
  of: Parameters<Store['begin']>[0],
  find: (of: Notification) => Notification | undefined,
): GivenRights {
  const refused = new Set<string>()
  for (const { notification } of of) {
    const now = find(notification)
    if (now === undefined || !sameVersion(now, notification)) refused.add(notification.id)
  }
  return { refused, forMs: Number.POSITIVE_INFINITY }
}

function page(rows: readonly Notification[], cursor: string | undefined, limit: number): Page<Notification> {
  const from = cursor === undefined ? 0 : rows.findIndex((row) => row.id === cursor) + 1
  if (from === 0 && cursor !== undefined) throw cursorRefusal()
  const items = rows.slice(from, from + limit)
  return { items, nextCursor: from + limit < rows.length ? items.at(-1)!.id : null }
}

/** @throws TypeError for a path that the transition table does not allow */
export function checkPaths({ accept = [], moves = [] }: Change): void {
  for (const move of moves) {
    const path = move.events.map((event) => event.status)
    if (path.length === 0 || !isLegalPath(move.before.status, path)) {
      throw new TypeError(
        `notification ${move.before.id} cannot go ${[move.before.status, ...path].join(' → ')}`,
      )
    }
  }
  for (const { id, status } of accept) {
    if (!isLegalPath('accepted', [status]))
      throw new TypeError(`notification ${id} cannot begin as ${status}`)
  }
}

export function isListed(row: Notification, query: ListQuery): boolean {
  const { job, statuses, category, channel, from = 0, to = Number.POSITIVE_INFINITY } = query
  return (
    (job === undefined || row.job === job) &&
    (statuses === undefined || statuses.includes(row.status)) &&
    (category === undefined || row.category === category) &&
    (channel === undefined || row.channel === channel) &&
    (query.module === undefined || row.module === query.module) &&
    (query.priority === undefined || row.priority === query.priority) &&
    (query.template === undefined || row.template === query.template) &&
    (query.actor === undefined || row.actor === query.actor) &&
    (query.limitName === undefined || row.decision.limit === query.limitName) &&
    (query.reason === undefined || (row.timeline.at(-1)?.reason ?? row.decision.reason) === query.reason) &&
    (query.ids === undefined || query.ids.includes(row.id)) &&
    row.createdAt >= from &&
    row.createdAt < to
  )
}

/** Lists rows, given in the order of acceptance, in the order of the query. */
export function listed(rows: readonly Notification[], query: ListQuery): Page<Notification> {
  const fit = rows.filter((row) => isListed(row, query))
  if (query.order === undefined) return page(fit.reverse(), query.cursor, query.limit)
  // By what is recorded: `sending` is shown where another process has the right to send it.
  const due = fit.filter(({ status }) => waits.has(status) || status === 'sending')
  const inOrder = due.sort(byDue)
  return page(inOrder, query.cursor, query.limit)
}

function isDeadLetter(row: Notification, query: DeadLetterQuery): boolean {
  const { channel, cause, causes, priority, ids } = query
  const reason = row.timeline.at(-1)?.reason
  return (
    row.status === 'dead' &&
    (channel === undefined || row.channel === channel) &&
    (cause === undefined || reason === cause) &&
    (causes === undefined || causes.some((each) => each === reason)) &&
    (priority === undefined || row.priority === priority) &&
    (ids === undefined || ids.includes(row.id))
  )
}

/** Lists dead letters of one tenant or all, given by tenant and id. */
export function deadLetters(
  rows: ReadonlyMap<string, ReadonlyMap<string, Notification>>,
  query: DeadLetterQuery,
): Page<Notification> {
  const { tenant, cursor, limit } = query
  const tenants = tenant === undefined ? [...rows.values()] : [rows.get(tenant) ?? new Map<string, never>()]
  const found = tenants
    .flatMap((each) => [...each.values()].filter((row) => isDeadLetter(row, query)))
    .sort(byId)
  // The row that a cursor names may have returned from the dead since: its page is over all the same.
  const hasLeft = cursor !== undefined && tenants.some((each) => each.has(cursor))
  return hasLeft
    ? page(
        found.filter(({ id }) => id > cursor),
        undefined,
        limit,
      )
    : page(found, cursor, limit)
}

/** Scans `rows` in the order of acceptance. */
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

/** Returns the value of a key and makes it when it is missing. */
export function entry<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key)
  if (value === undefined) {
    value = make()
    map.set(key, value)
  }
  return value
}
