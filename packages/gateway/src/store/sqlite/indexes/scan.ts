/**
 * Scans the record from its beginning to its end in slices of a fixed number of rows, matching or not: the scan of a
 * start in the background. One slice costs the store's thread below a millisecond for 1,000 rows of which none
 * matches.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { ScanQuery } from '../../../ports.ts'
import { statusCodes } from '../../status-codes.ts'
import type { Row } from '../codec/rows.ts'
import { columns } from '../codec/rows.ts'
import type { RowPage } from '../tables/queries.ts'

export function prepareScan(db: DatabaseSync): (query: ScanQuery) => RowPage {
  const lastOf = db.prepare(
    'SELECT max(seq) AS seq, count(*) AS count FROM (SELECT seq FROM states WHERE seq > ? ORDER BY seq LIMIT ?)',
  )
  const select = db.prepare(`SELECT ${columns} FROM states s CROSS JOIN notifications n USING (seq)
    WHERE s.seq > :after AND s.seq <= :last AND s.status IN (SELECT value FROM json_each(:statuses))
      AND (:channels IS NULL OR n.channel IN (SELECT value FROM json_each(:channels)))
      AND (:policy IS NULL OR instr(n.decision, :policy) = 0)
    ORDER BY s.seq`)
  select.setReturnArrays(true)

  return ({ statuses, channels, notPolicy, cursor = '0', limit }) => {
    const after = Number(cursor)
    const last = lastOf.get(after, limit)!
    if (last.seq === null) return { rows: [], nextCursor: null }
    const rows = select.all({
      after,
      last: last.seq!,
      statuses: JSON.stringify(statuses.map((status) => statusCodes[status])),
      channels: channels === undefined ? null : JSON.stringify(channels),
      policy: notPolicy === undefined ? null : `"policyVersion":${JSON.stringify(notPolicy)}`,
    }) as unknown as readonly Row[]
    return { rows, nextCursor: Number(last.count) < limit ? null : String(last.seq) }
  }
}
