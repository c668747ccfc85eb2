/** What waits for a person, a page at a time, for the stages. */
import type { DatabaseSync } from 'node:sqlite'
import type { RowPage } from './listing.ts'
import type { Register } from './register.ts'
import { rowsOf } from './register.ts'
import { rowPage } from './row-page.ts'
import type { Row } from './rows.ts'
import { columns } from './rows.ts'

export interface WaitingRows {
  waiting(tenant: string, recipient: string, cursor: string | null, limit: number): RowPage
}

export function prepareWaiting(db: DatabaseSync, register: Pick<Register, 'lookup'>): WaitingRows {
  // CROSS JOIN fixes the order in which SQLite goes: from the few rows that an index names to the others.
  const ofPerson = db.prepare(`SELECT ${columns}
    FROM ${rowsOf} r CROSS JOIN notifications n USING (seq) CROSS JOIN states s USING (seq)
    WHERE r.seq > ?5 AND n.tenant = ?3 AND n.recipient = ?4 AND s.status IN (1, 2, 3) ORDER BY r.seq`)
  ofPerson.setReturnArrays(true)

  return {
    waiting(tenant, recipient, cursor, limit) {
      const found = register.lookup(tenant, recipient)
      if (found === undefined) return { rows: [], nextCursor: null }
      const rows = ofPerson.iterate(...found, tenant, recipient, Number(cursor ?? 0))
      return rowPage(rows as unknown as Iterable<Row>, limit)
    },
  }
}
