/**
 * Reads the items of digests: the items of one, a page at a time, and orphans whose digest is not open any more,
 * which a version before the check of `left` (digests.ts) may have left behind.
 */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import type { Row } from '../codec/rows.ts'
import { columns } from '../codec/rows.ts'
import { rowPage } from '../row-page.ts'
import type { RowPage } from './queries.ts'

export interface Collected {
  /**
   * Reads items in the order of acceptance. A page ends at the limit or at a million characters of requests, with at
   * least one item.
   */
  digestItems(digestId: string, cursor: string | null, limit: number): RowPage
  /** Reads orphans by digest, then in the order of acceptance. A page may have no items and still have a next one. */
  orphans(cursor: string | null, limit: number): RowPage
}

/** Digests examined for one page: some 2 ms. */
const digestsMax = 500

export function prepareCollected(db: DatabaseSync): Collected {
  const items = db.prepare(`SELECT ${columns} FROM states s INDEXED BY collecting
    CROSS JOIN notifications n USING (seq)
    WHERE s.status = 2 AND s.digest_id = ? AND s.seq > ? ORDER BY s.seq`)
  items.setReturnArrays(true)
  const nextId = db.prepare(`SELECT digest_id AS id FROM states INDEXED BY collecting
    WHERE status = 2 AND digest_id > ? ORDER BY digest_id LIMIT 1`)
  const isOpen = db.prepare('SELECT 1 FROM digests WHERE id = ?')

  const read = (digestId: string, after: number, limit: number): RowPage =>
    rowPage(items.iterate(digestId, after) as unknown as Iterable<Row>, limit)

  return {
    digestItems(digestId, cursor, limit) {
      return read(digestId, Number(cursor ?? 0), limit)
    },

    orphans(cursor, limit) {
      let id = cursor ?? ''
      for (let looked = 0; looked < digestsMax; looked += 1) {
        const next = nextId.get(id as SQLInputValue)?.id as string | undefined
        if (next === undefined) return { rows: [], nextCursor: null }
        if (isOpen.get(next) === undefined) return { rows: read(next, 0, limit).rows, nextCursor: next }
        id = next
      }
      return { rows: [], nextCursor: id }
    },
  }
}
