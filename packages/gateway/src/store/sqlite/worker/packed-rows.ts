/**
 * Rows of a page on their way from the reader's thread. A message is decoded as a whole in one turn of the event loop,
 * and a page of 500 rows takes some 10 ms of it; so its rows travel as bytes, some in each slice, and the event loop
 * decodes a slice at a time.
 */
import { deserialize, serialize } from 'node:v8'
import type { Row } from '../codec/rows.ts'
import type { RowPage } from '../tables/queries.ts'

/** Rows of one slice: some 0.5 to 1 ms with all that is done for an answer. */
const sliceRows = 20

export interface PackedPage {
  readonly slices: readonly Uint8Array[]
  readonly nextCursor: string | null
}

export function pack({ rows, nextCursor }: RowPage): PackedPage {
  const slices: Uint8Array[] = []
  for (let from = 0; from < rows.length; from += sliceRows)
    slices.push(serialize(rows.slice(from, from + sliceRows)))
  return { slices, nextCursor }
}

export const unpack = (slice: Uint8Array): readonly Row[] => deserialize(slice) as readonly Row[]
