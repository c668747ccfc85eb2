/**
 * A write-behind index from a hash to rows, written late and in order. Keys such as recipients' ids come in no order:
 * a plain index over them dirties one page for every row, and at a hundred rows a commit those pages are most of the
 * write load (measured: 28 µs of CPU a row with such an index, 15 µs without). Here rows are noted in memory; a full
 * segment of them is sorted by hash and flushed to the table a few at a time, together with the commits that come
 * after it. Rows that are not flushed yet are read back from the rows themselves when the store is opened.
 */
import type { DatabaseSync } from 'node:sqlite'

/**
 * 2^15: two segments in memory are 1.5 MB and some 0.1 s at opening. With 1,000,000 rows in the table, accepting
 * costs 12.7 µs of CPU (as in an empty store), with segments of 2^14 15.4 µs.
 */
const defaultRows = 32_768

/** Hashes are below 2^38, so that a hash and a position in a segment fit the 53 bits of a number. */
export const hashMax = 2 ** 38

export interface WriteBehindIndexOptions {
  readonly db: DatabaseSync
  /** A table of (hash, seq), and the key under which `meta` has the first seq that is not flushed. */
  readonly table: string
  /** Rows of one segment; a power of two up to the default. @defaultValue 32768 */
  readonly segmentRows?: number
}

export interface WriteBehindIndex {
  /** The first seq that is not flushed: rows from here on must be noted again at opening. */
  readonly from: number
  /** Notes a row. Seqs must rise; gaps are allowed. */
  add(hash: number, seq: number): void
  /** The noted rows as a JSON list, for `IN (SELECT value FROM json_each(?))` beside the table's. */
  noted(hash: number): string
  /** The hashes of all noted rows. */
  notedHashes(): number[]
  /** Flushes up to `count` rows; called inside a transaction. */
  flush(count: number): void
  /** Ends the transaction: it is on disk, or rolled back. */
  finish(committed: boolean): void
  /** True if the table has a row that need not be noted. */
  has(hash: number, seq: number): boolean
  /** Removes a row; called inside a transaction. A noted row in memory is then never flushed. */
  remove(hash: number, seq: number): void
  /** Inserts a row that is not new; called inside a transaction. */
  insert(hash: number, seq: number): void
}

export function createWriteBehindIndex({
  db,
  table,
  segmentRows = defaultRows,
}: WriteBehindIndexOptions): WriteBehindIndex {
  const insert = db.prepare(`INSERT OR IGNORE INTO ${table} (hash, seq) VALUES (?, ?)`)
  const removeRow = db.prepare(`DELETE FROM ${table} WHERE hash = ? AND seq = ?`)
  const select = db.prepare(`SELECT 1 FROM ${table} WHERE hash = ? AND seq = ?`)
  const remember = db.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)')
  const from = Number(db.prepare('SELECT value FROM meta WHERE name = ?').get(table)?.value ?? 1)
  let current = createSegment(from, segmentRows)
  let full: Segment[] = []
  /**
   * The number of rows of the oldest full segment that are flushed on disk; `flushing` includes the current
   * transaction.
   */
  let flushed = 0
  let flushing = 0
  let finished = 0
  /** Noted rows that must not be flushed: at most as many as there are noted rows. */
  const removed = new Set<number>()
  /** Rows that the current transaction removes. */
  const removing: number[] = []

  return {
    get from() {
      return (full[0] ?? current).from
    },
    add(hash, seq) {
      if (seq - current.from >= segmentRows) {
        full.push(current)
        current = createSegment(seq, segmentRows)
      }
      current.add(hash, seq)
    },
    noted(hash) {
      const seqs: number[] = []
      for (const segment of full) segment.collect(hash, seqs)
      current.collect(hash, seqs)
      return JSON.stringify(seqs)
    },
    notedHashes: () => [...full, current].flatMap((segment) => [...segment.hashes()]),
    flush(count) {
      for (let left = count; left > 0 && finished < full.length; ) {
        const segment = full[finished]!
        const entries = segment.sorted()
        const end = Math.min(flushing + left, entries.length)
        left -= end - flushing
        for (; flushing < end; flushing += 1) {
          const entry = segment.entryAt(flushing)
          if (!removed.has(entry[1])) insert.run(...entry)
        }
        if (end === entries.length) {
          finished += 1
          flushing = 0
          remember.run(table, (full[finished] ?? current).from)
        }
      }
    },
    finish(committed) {
      if (!committed) flushing = flushed
      else {
        for (const seq of removing) removed.add(seq)
        if (finished > 0) {
          full = full.slice(finished)
          for (const seq of removed) if (seq < (full[0] ?? current).from) removed.delete(seq)
        }
      }
      removing.length = 0
      finished = 0
      flushed = flushing
    },
    has: (hash, seq) => select.get(hash, seq) !== undefined,
    remove(hash, seq) {
      removeRow.run(hash, seq)
      if (seq >= (full[0] ?? current).from) removing.push(seq)
    },
    insert(hash, seq) {
      insert.run(hash, seq)
    },
  }
}

interface Segment {
  readonly from: number
  add(hash: number, seq: number): void
  collect(hash: number, into: number[]): void
  hashes(): Float64Array
  /** `hash * rows + position`, ascending. */
  sorted(): Float64Array
  entryAt(index: number): readonly [hash: number, seq: number]
}

/** Chained hashing in three flat arrays, which the garbage collector never has to walk. */
function createSegment(from: number, size: number): Segment {
  const heads = new Int32Array(size).fill(-1)
  const nexts = new Int32Array(size)
  const entries = new Float64Array(size)
  const hashes = new Float64Array(size)
  let count = 0
  let order: Float64Array | undefined

  return {
    from,
    add(hash, seq) {
      const bucket = hash % size
      nexts[count] = heads[bucket]!
      heads[bucket] = count
      hashes[count] = hash
      entries[count] = hash * size + (seq - from)
      count += 1
    },
    collect(hash, into) {
      for (let at = heads[hash % size]!; at !== -1; at = nexts[at]!) {
        if (hashes[at] === hash) into.push(from + (entries[at]! % size))
      }
    },
    hashes: () => hashes.subarray(0, count),
    sorted() {
      order ??= entries.slice(0, count).sort()
      return order
    },
    entryAt(index) {
      const entry = order![index]!
      return [Math.floor(entry / size), from + (entry % size)]
    },
  }
}
