/**
 * Everybody on record by hash, a page at a time: those who have notifications, then those who have preferences. The
 * first page must be asked for before anything is written: it has the rows that no table names yet, and whoever is
 * written later is known to the writer.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { RecipientIndex } from './recipient-index.ts'

/** Behind which the next page begins. */
export type ScanCursor = { readonly hash: number } | { readonly tenant: string; readonly id: string }

export interface ScanPage {
  readonly hashes: Float64Array
  /** Absent at the end. */
  readonly next?: ScanCursor
}

export const scanStart: ScanCursor = { hash: -1 }
/** A page holds up the commits behind it for some 2 ms. */
const pageMax = 5_000

export function prepareRecipientScan(
  db: DatabaseSync,
  register: Pick<RecipientIndex, 'hash' | 'notedHashes'>,
) {
  const rows = db.prepare('SELECT DISTINCT hash FROM recipient_rows WHERE hash > ? ORDER BY hash LIMIT ?')
  const recipients = db.prepare(
    'SELECT tenant, id FROM recipients WHERE (tenant, id) > (?, ?) ORDER BY tenant, id LIMIT ?',
  )

  function withNotifications(after: number): ScanPage {
    const hashes = rows.all(after, pageMax).map((row) => row.hash as number)
    const next = hashes.length < pageMax ? { tenant: '', id: '' } : { hash: hashes.at(-1)! }
    const noted = after === -1 ? register.notedHashes() : []
    return { hashes: Float64Array.from([...hashes, ...noted]), next }
  }

  function withPreferences(after: { readonly tenant: string; readonly id: string }): ScanPage {
    const found = recipients.all(after.tenant, after.id, pageMax) as { tenant: string; id: string }[]
    const hashes = Float64Array.from(found, ({ tenant, id }) => register.hash(tenant, id))
    return found.length < pageMax ? { hashes } : { hashes, next: found.at(-1)! }
  }

  return (cursor: ScanCursor): ScanPage =>
    'hash' in cursor ? withNotifications(cursor.hash) : withPreferences(cursor)
}
