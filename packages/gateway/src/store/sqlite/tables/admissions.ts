/**
 * Reads the facts from which limiter state is rebuilt. A recipient's limits count notifications that were sent, may
 * have been sent, or hold an instant; deduplication counts all that were neither suppressed nor cancelled nor failed;
 * a tenant's limits count every accepted notification, whatever its outcome, once it has passed them (invariant 6).
 * Notifications in a throttle queue before them are read separately.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { AdmissionQuery } from '../../../ports.ts'
import type { Row } from '../codec/rows.ts'
import { columns } from '../codec/rows.ts'
import type { RecipientIndex } from '../indexes/recipient-index.ts'
import { rowsOf } from '../indexes/recipient-index.ts'

export interface Admissions {
  /** Reads admissions, newest first. */
  read(query: AdmissionQuery): readonly Row[]
  /** Reads the throttle queue in the order of acceptance. */
  inThrottleQueue(query: { readonly after?: string; readonly limit: number }): readonly Row[]
}

/** The instant at which it counts: when it was sent, or is to be. */
const counted = 'coalesce(s.fired_at, s.suspect_at, s.due_at)'

export function prepareAdmissions(db: DatabaseSync, register: RecipientIndex): Admissions {
  const ofRecipient = db.prepare(`SELECT ${columns}
    FROM ${rowsOf} r CROSS JOIN notifications n USING (seq) CROSS JOIN states s USING (seq)
    WHERE n.tenant = ?3 AND n.recipient = ?4
      AND (s.fired_at IS NOT NULL OR s.suspect_at IS NOT NULL OR s.status NOT IN (7, 9, 10))
      AND (n.created_at >= ?5 OR s.fired_at >= ?5 OR s.suspect_at >= ?5
        OR s.status IN (1, 3, 4) AND s.due_at >= ?5)
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
  for (const statement of [ofRecipient, ofTenant, waiting]) statement.setReturnArrays(true)

  return {
    inThrottleQueue: ({ after = '', limit }) => waiting.all({ after, limit }) as unknown as readonly Row[],
    read({ tenant, recipient, since, limit }) {
      if (recipient === undefined) return ofTenant.all({ tenant, since, limit }) as unknown as readonly Row[]
      const found = register.lookup(tenant, recipient)
      if (found === undefined) return []
      return ofRecipient.all(...found, tenant, recipient, since, limit) as unknown as readonly Row[]
    },
  }
}
