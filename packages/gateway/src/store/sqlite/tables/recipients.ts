/** Recipients: their addresses and preferences, a JSON text each. */
import type { DatabaseSync } from 'node:sqlite'
import { checksum, checksumOf } from '../codec/checksum.ts'
import { deletingSecurely } from '../secure-delete.ts'

export interface Recipients {
  write(tenant: string, id: string, body: string): void
  /** Deletes a recipient; returns the previous JSON. */
  take(tenant: string, id: string): string | undefined
  /** The JSON of a recipient. */
  find(tenant: string, id: string): string | undefined
}

export function prepareRecipients(db: DatabaseSync): Recipients {
  const upsert = db.prepare('INSERT OR REPLACE INTO recipients (tenant, id, body, sum) VALUES (?, ?, ?, ?)')
  const select = db.prepare('SELECT body, sum FROM recipients WHERE tenant = ? AND id = ?')
  const remove = db.prepare('DELETE FROM recipients WHERE tenant = ? AND id = ? RETURNING body')
  return {
    take: (tenant, id) => remove.get(tenant, id)?.body as string | undefined,
    write(tenant, id, body) {
      deletingSecurely(db, () => upsert.run(tenant, id, body, checksumOf(body)))
    },
    find(tenant, id) {
      const row = select.get(tenant, id)
      if (row === undefined) return undefined
      checksum(row.body as string, row.sum, `recipient ${id}`)
      return row.body as string
    },
  }
}
