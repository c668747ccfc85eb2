/** People: their addresses and preferences, a JSON text each. */
import type { DatabaseSync } from 'node:sqlite'
import type { Recipient } from '../../../model.ts'
import { checkSum, sumOf } from './sum.ts'

export interface Recipients {
  write(recipient: Recipient): void
  find(tenant: string, id: string): Recipient | undefined
}

export function prepareRecipients(db: DatabaseSync): Recipients {
  const upsert = db.prepare('INSERT OR REPLACE INTO recipients (tenant, id, body, sum) VALUES (?, ?, ?, ?)')
  const select = db.prepare('SELECT body, sum FROM recipients WHERE tenant = ? AND id = ?')
  return {
    write(recipient) {
      const body = JSON.stringify(recipient)
      upsert.run(recipient.tenant, recipient.id, body, sumOf(body))
    },
    find(tenant, id) {
      const row = select.get(tenant, id)
      if (row === undefined) return undefined
      checkSum(row.body as string, row.sum, `recipient ${id}`)
      return JSON.parse(row.body as string) as Recipient
    },
  }
}
