/** Holds of operators: one JSON text per hold. */
import type { DatabaseSync } from 'node:sqlite'
import type { HoldRecord } from '../../../ports.ts'
import { checksum, checksumOf, type Readable, readable } from '../codec/checksum.ts'

export interface Holds {
  /**
   * @param body the JSON; empty to delete the row
   * @param until the row is deleted only where its hold ends at this instant
   */
  write(name: string, body: string, until?: number): void
  read(): Readable<HoldRecord>
}

export function prepareHolds(db: DatabaseSync): Holds {
  const upsert = db.prepare('INSERT OR REPLACE INTO holds VALUES (?, ?, ?)')
  const remove = db.prepare('DELETE FROM holds WHERE name = ?')
  const removeOver = db.prepare(`DELETE FROM holds WHERE name = ? AND body ->> 'until' = ?`)
  const select = db.prepare('SELECT name, body, sum FROM holds ORDER BY name')
  return {
    write(name, body, until) {
      if (body === '' && until !== undefined) removeOver.run(name, until)
      else if (body === '') remove.run(name)
      else upsert.run(name, body, checksumOf(body))
    },
    read() {
      return readable(select.all(), ({ name, body, sum }) => {
        checksum(body as string, sum, `hold ${name}`)
        return JSON.parse(body as string) as HoldRecord
      })
    },
  }
}
