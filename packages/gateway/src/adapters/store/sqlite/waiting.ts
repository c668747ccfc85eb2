/** Everything that waits for a person, for the stages. */
import type { DatabaseSync } from 'node:sqlite'
import type { Register } from './register.ts'
import { rowsOf } from './register.ts'
import type { Row } from './rows.ts'
import { columns } from './rows.ts'

export interface WaitingRows {
  waiting(tenant: string, recipient: string): readonly Row[]
}

export function prepareWaiting(db: DatabaseSync, register: Pick<Register, 'lookup'>): WaitingRows {
  // CROSS JOIN fixes the order in which SQLite goes: from the few rows that an index names to the others.
  const ofPerson = db.prepare(`SELECT ${columns}
    FROM ${rowsOf} r CROSS JOIN notifications n USING (seq) CROSS JOIN states s USING (seq)
    WHERE n.tenant = ?3 AND n.recipient = ?4 AND s.status IN (1, 2, 3) ORDER BY n.seq`)
  ofPerson.setReturnArrays(true)

  return {
    waiting(tenant, recipient) {
      const found = register.lookup(tenant, recipient)
      if (found === undefined) return []
      return ofPerson.all(...found, tenant, recipient) as unknown as readonly Row[]
    },
  }
}
