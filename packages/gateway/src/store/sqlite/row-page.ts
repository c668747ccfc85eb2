/** A page of rows in the order of acceptance, bounded in number and in size. */

import type { Row } from './codec/rows.ts'
import { requestLengthOf, seqOf } from './codec/rows.ts'
import type { RowPage } from './tables/queries.ts'

/** Characters of requests in one page: decoding them takes some 5 ms. */
const pageLengthMax = 2 ** 20

/**
 * Reads rows up to the limit or a million characters of requests, at least one row. The cursor is the seq of the last
 * one.
 */
export function rowPage(found: Iterable<Row>, limit: number): RowPage {
  const rows: Row[] = []
  let length = 0
  for (const row of found) {
    if (rows.length === limit || length >= pageLengthMax)
      return { rows, nextCursor: String(seqOf(rows.at(-1)!)) }
    rows.push(row)
    length += requestLengthOf(row)
  }
  return { rows, nextCursor: null }
}
