/**
 * Rows of a page on their way from the reader's thread. A message is decoded as a whole in one turn of the event loop,
 * and a page of 500 rows takes some 10 ms of it; so its rows travel as bytes, some in each slice, and the event loop
 * decodes a slice at a time.
 */
import { deserialize, serialize } from 'node:v8'
import { lengthOf, type Row } from '../codec/rows.ts'
import type { RowPage } from '../tables/queries.ts'

/** Rows of one slice at most: some 0.3 ms. */
const sliceRows = 10
/** Characters of a slice, after which it ends: a notification with a long timeline has as many alone. */
const sliceLength = 2 ** 14

export interface PackedPage {
  readonly slices: readonly Uint8Array[]
  readonly nextCursor: string | null
}

export function pack({ rows, nextCursor }: RowPage): PackedPage {
  const slices: Uint8Array[] = []
  let [slice, length]: [Row[], number] = [[], 0]
  for (const row of rows) {
    if (slice.length === sliceRows || length >= sliceLength) {
      slices.push(serialize(slice))
      slice = []
      length = 0
    }
    slice.push(row)
    length += lengthOf(row)
  }
  if (slice.length > 0) slices.push(serialize(slice))
  return { slices, nextCursor }
}

export const unpack = (slice: Uint8Array): readonly Row[] => deserialize(slice) as readonly Row[]
