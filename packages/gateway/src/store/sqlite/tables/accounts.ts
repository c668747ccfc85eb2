/** Account state of providers: one JSON text per account, deleted when it is empty. */
import type { DatabaseSync } from 'node:sqlite'
import type { AccountRecord } from '../../../ports.ts'
import { checksum, checksumOf, type Readable, readable } from '../codec/checksum.ts'

export interface Accounts {
  /** @param body the JSON; empty to delete the row */
  write(channel: string, provider: string, account: string, body: string): void
  read(): Readable<AccountRecord>
}

export function prepareAccounts(db: DatabaseSync): Accounts {
  const upsert = db.prepare('INSERT OR REPLACE INTO accounts VALUES (?, ?, ?, ?, ?)')
  const remove = db.prepare('DELETE FROM accounts WHERE channel = ? AND provider = ? AND account = ?')
  const select = db.prepare('SELECT account, body, sum FROM accounts ORDER BY channel, provider, account')
  return {
    write(channel, provider, account, body) {
      if (body === '') remove.run(channel, provider, account)
      else upsert.run(channel, provider, account, body, checksumOf(body))
    },
    read() {
      return readable(select.all(), ({ account, body, sum }) => {
        checksum(body as string, sum, `account ${account}`)
        return JSON.parse(body as string) as AccountRecord
      })
    },
  }
}
