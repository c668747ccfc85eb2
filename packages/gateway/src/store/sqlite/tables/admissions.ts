/**
 * Reads the facts from which limiter state is rebuilt. A recipient's limits count notifications that were sent, may
 * have been sent, or hold an instant; deduplication counts all that were neither suppressed nor cancelled nor failed;
 * a tenant's limits count every accepted notification, whatever its outcome, once it has passed them (invariant 6).
 * Notifications in a throttle queue before them are read separately.
 */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import type { AdmissionQuery, CountedQuery } from '../../../ports.ts'
import type { Row } from '../codec/rows.ts'
import { columns, createdAtOf, seqOf } from '../codec/rows.ts'
import type { RecipientIndex } from '../indexes/recipient-index.ts'
import { rowsOf } from '../indexes/recipient-index.ts'
import { rowPage } from '../row-page.ts'
import type { RowPage } from './queries.ts'

export interface Admissions {
  /** Reads admissions, newest first. */
  read(query: AdmissionQuery): readonly Row[]
  /** Reads what limits count, in the order of acceptance. */
  counted(query: CountedQuery): RowPage
  /** Reads the throttle queue in the order of acceptance. */
  inThrottleQueue(query: { readonly after?: string; readonly limit: number }): readonly Row[]
}

type Within = NonNullable<CountedQuery['within']>

/** The instant at which it counts: when it was sent, or is to be. */
const counted = 'coalesce(s.fired_at, s.suspect_at, s.due_at)'

export function prepareAdmissions(db: DatabaseSync, register: RecipientIndex): Admissions {
  const ofRecipient = db.prepare(`SELECT ${columns}
    FROM ${rowsOf} r CROSS JOIN notifications n USING (seq) CROSS JOIN states s USING (seq)
    WHERE n.tenant = ?3 AND n.recipient = ?4
      AND (s.fired_at IS NOT NULL OR s.suspect_at IS NOT NULL OR s.status NOT IN (7, 9, 10))
      AND (n.created_at >= ?5 OR s.fired_at >= ?5 OR s.suspect_at >= ?5
        OR s.status IN (1, 3, 4, 5) AND s.due_at >= ?5)
    ORDER BY ${counted} DESC, n.seq DESC LIMIT ?6`)
  // A notification that a tenant's limit delayed counts when it leaves the throttle queue, however long ago it was
  // accepted. Without INDEXED BY the planner reads all states, because they come in the order in which it merges the
  // two.
  const ofTenant = db.prepare(`SELECT ${columns} FROM
      (SELECT seq FROM notifications WHERE tenant = :tenant AND created_at >= :since
       UNION
       SELECT p.seq FROM states p INDEXED BY turned CROSS JOIN notifications q USING (seq)
         WHERE p.turned_at >= :since AND q.tenant = :tenant)
      CROSS JOIN notifications n USING (seq) JOIN states s USING (seq)
    ORDER BY ${counted} DESC, n.seq DESC LIMIT :limit`)
  const waiting = db.prepare(`SELECT ${columns}
    FROM states s INDEXED BY in_line CROSS JOIN notifications n USING (seq)
    WHERE s.platform = 1 AND s.status = 1
      AND s.seq > coalesce((SELECT seq FROM notifications WHERE id = :after), 0)
    ORDER BY s.seq LIMIT :limit`)
  const pageOfRecipient = db.prepare(`SELECT ${columns}
    FROM ${rowsOf} r CROSS JOIN notifications n USING (seq) CROSS JOIN states s USING (seq)
    WHERE r.seq > ?6 AND n.tenant = ?3 AND n.recipient = ?4
      AND (s.fired_at IS NOT NULL OR s.suspect_at IS NOT NULL OR s.status NOT IN (7, 9, 10))
      AND (n.created_at >= ?5 OR s.fired_at >= ?5 OR s.suspect_at >= ?5 OR s.status IN (1, 2, 3, 4)
        OR s.status = 5 AND s.due_at >= ?5)
    ORDER BY r.seq`)
  // A page examines a bounded stretch of the index, however few of its rows count.
  const behind = 'n.tenant = :tenant AND n.created_at >= :at AND (n.created_at > :at OR n.seq > :seq)'
  const endOfPage =
    db.prepare(`SELECT created_at, seq FROM notifications n INDEXED BY by_tenant WHERE ${behind}
    ORDER BY created_at, seq LIMIT 1 OFFSET :offset`)
  const pageOfTenant = db.prepare(`SELECT ${columns}
    FROM notifications n INDEXED BY by_tenant CROSS JOIN states s USING (seq)
    WHERE ${behind} AND n.created_at <= :lastAt AND (n.created_at < :lastAt OR n.seq <= :lastSeq)
      AND (s.fired_at >= :since OR s.suspect_at >= :since OR s.status IN (1, 2, 3, 4))
    ORDER BY n.created_at, n.seq`)
  const pageWithin = db.prepare(`SELECT ${columns}
    FROM notifications n INDEXED BY by_tenant CROSS JOIN states s USING (seq)
    WHERE ${behind} AND n.created_at <= :lastAt AND (n.created_at < :lastAt OR n.seq <= :lastSeq)
      AND (s.fired_at >= :from OR s.suspect_at >= :from OR s.status IN (1, 2, 3, 4) AND s.due_at <= :to)
    ORDER BY n.created_at, n.seq`)
  const firstBehind = db.prepare(`SELECT ${columns}
    FROM notifications n INDEXED BY by_tenant CROSS JOIN states s USING (seq)
    WHERE ${behind} AND n.created_at <= :lastAt AND (n.created_at < :lastAt OR n.seq <= :lastSeq)
      AND s.status IN (1, 2, 3, 4) AND s.due_at > :to
    ORDER BY n.created_at, n.seq LIMIT 1`)
  const acceptedOfTenant = db.prepare(`SELECT ${columns}
    FROM notifications n INDEXED BY by_tenant CROSS JOIN states s USING (seq)
    WHERE ${behind} AND n.created_at <= :lastAt AND (n.created_at < :lastAt OR n.seq <= :lastSeq)
      AND (n.created_at >= :since OR s.turned_at >= :since)
    ORDER BY n.created_at, n.seq`)
  const earliestTurned = db.prepare(`SELECT min(n.created_at) AS at
    FROM states s INDEXED BY turned CROSS JOIN notifications n USING (seq)
    WHERE s.turned_at >= ? AND n.tenant = ?`)
  for (const statement of [ofRecipient, ofTenant, waiting, pageOfRecipient, pageOfTenant, acceptedOfTenant])
    statement.setReturnArrays(true)
  for (const statement of [pageWithin, firstBehind]) statement.setReturnArrays(true)

  function rowsWithin(page: Record<string, SQLInputValue>, { from, to }: Within): readonly Row[] {
    const rows = pageWithin.all({ ...page, from, to }) as unknown as readonly Row[]
    const behind = firstBehind.get({ ...page, to }) as unknown as Row | undefined
    if (behind === undefined || rows.some((row) => seqOf(row) === seqOf(behind))) return rows
    return [...rows, behind].sort((a, b) => createdAtOf(a) - createdAtOf(b) || seqOf(a) - seqOf(b))
  }

  function countedOfTenant({ tenant, since, accepted, within, cursor, limit }: CountedQuery): RowPage {
    // One that left since, or waits, may have been accepted at any time: its `sendAt`, a hold or a redrive may lie far behind.
    const earliest = (): number =>
      accepted === true ? Math.min(since, Number(earliestTurned.get(since, tenant)?.at ?? since)) : 0
    const [at, seq] = cursor?.split(' ').map(Number) ?? [earliest(), 0]
    const from = { tenant, at: at!, seq: seq! }
    const last = endOfPage.get({ ...from, offset: limit - 1 })
    const [lastAt, lastSeq] =
      last === undefined ? [Number.MAX_SAFE_INTEGER, 0] : [Number(last.created_at), Number(last.seq)]
    const nextCursor = last === undefined ? null : `${lastAt} ${lastSeq}`
    const page = { ...from, lastAt, lastSeq }
    if (within !== undefined) return { rows: rowsWithin(page, within), nextCursor }
    const rows = (accepted === true ? acceptedOfTenant : pageOfTenant).all({ ...page, since })
    return { rows: rows as unknown as readonly Row[], nextCursor }
  }

  return {
    counted(query) {
      const { tenant, recipient, since, cursor = '0', limit } = query
      if (recipient === undefined) return countedOfTenant(query)
      const found = register.lookup(tenant, recipient)
      if (found === undefined) return { rows: [], nextCursor: null }
      const rows = pageOfRecipient.iterate(...found, tenant, recipient, since, Number(cursor))
      return rowPage(rows as unknown as Iterable<Row>, limit)
    },
    inThrottleQueue: ({ after = '', limit }) => waiting.all({ after, limit }) as unknown as readonly Row[],
    read({ tenant, recipient, since, limit }) {
      if (recipient === undefined) return ofTenant.all({ tenant, since, limit }) as unknown as readonly Row[]
      const found = register.lookup(tenant, recipient)
      if (found === undefined) return []
      return ofRecipient.all(...found, tenant, recipient, since, limit) as unknown as readonly Row[]
    },
  }
}
