/**
 * Pages through the hashes of all recipients on record: first recipients with notifications, then recipients with
 * preferences. The first page must be requested before anything is written: it includes rows that are not flushed to
 * the table yet, and the writer knows the recipients that it writes later.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { RecipientIndex } from './recipient-index.ts'

/** The position after which the next page begins. */
export type ScanCursor = { readonly hash: number } | { readonly tenant: string; readonly id: string }

export interface ScanPage {
  readonly hashes: Float64Array
  /** Absent at the end. */
  readonly next?: ScanCursor
}

export const scanStart: ScanCursor = { hash: -1 }
/** The maximum number of hashes in a page. A page delays the commits behind it by some 2 ms. */
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
