/** People: their addresses and preferences, a JSON text each. */
import type { DatabaseSync } from 'node:sqlite'
import type { Recipient } from '../../../model.ts'
import { readJson } from './rows.ts'

export interface Recipients {
  write(recipient: Recipient): void
  find(tenant: string, id: string): Recipient | undefined
}

export function prepareRecipients(db: DatabaseSync): Recipients {
  const upsert = db.prepare('INSERT OR REPLACE INTO recipients VALUES (?, ?, ?)')
  const select = db.prepare('SELECT body FROM recipients WHERE tenant = ? AND id = ?')
  return {
    write(recipient) {
      upsert.run(recipient.tenant, recipient.id, JSON.stringify(recipient))
    },
    find(tenant, id) {
      const row = select.get(tenant, id)
      return row === undefined ? undefined : readJson<Recipient>(row.body)
    },
  }
}
