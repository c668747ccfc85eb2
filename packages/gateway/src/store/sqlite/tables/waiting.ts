/** Reads a recipient's waiting notifications, a page at a time, for the stages. */
import type { DatabaseSync } from 'node:sqlite'
import type { Row } from '../codec/rows.ts'
import { columns } from '../codec/rows.ts'
import type { RecipientIndex } from '../indexes/recipient-index.ts'
import { rowsOf } from '../indexes/recipient-index.ts'
import { rowPage } from '../row-page.ts'
import type { RowPage } from './queries.ts'

export interface WaitingRows {
  waiting(tenant: string, recipient: string, cursor: string | null, limit: number): RowPage
}

export function prepareWaiting(db: DatabaseSync, register: Pick<RecipientIndex, 'lookup'>): WaitingRows {
  // CROSS JOIN fixes SQLite's join order: from the few rows that an index names to the others.
  const ofRecipient = db.prepare(`SELECT ${columns}
    FROM ${rowsOf} r CROSS JOIN notifications n USING (seq) CROSS JOIN states s USING (seq)
    WHERE r.seq > ?5 AND n.tenant = ?3 AND n.recipient = ?4 AND s.status IN (1, 2, 3) ORDER BY r.seq`)
  ofRecipient.setReturnArrays(true)

  return {
    waiting(tenant, recipient, cursor, limit) {
      const found = register.lookup(tenant, recipient)
      if (found === undefined) return { rows: [], nextCursor: null }
      const rows = ofRecipient.iterate(...found, tenant, recipient, Number(cursor ?? 0))
      return rowPage(rows as unknown as Iterable<Row>, limit)
    },
  }
}
