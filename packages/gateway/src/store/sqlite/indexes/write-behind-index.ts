/**
 * An index from a hash to rows that is written late and in order. Keys such as people's ids come in no order: a
 * plain index over them dirties one page for every row, and at a hundred rows a commit those pages are most of what
 * is written (measured: 28 µs of CPU a row with such an index, 15 µs without). Here rows are noted in memory; a full
 * generation of them is sorted by hash and folded into the table a few at a time, together with the commits that
 * come after it. What is not folded yet is read back from the rows themselves when the store is opened.
 */
import type { DatabaseSync } from 'node:sqlite'

/**
 * 2^15: two of them in memory are 1.5 MB and some 0.1 s at opening. With 1,000,000 rows in the table, accepting costs
 * 12.7 µs of CPU (as in an empty store), with generations of 2^14 15.4 µs.
 */
const defaultRows = 32_768

/** Hashes are below 2^38, so that a hash and a place in a generation fit the 53 bits of a number. */
export const hashMax = 2 ** 38

export interface WriteBehindIndexOptions {
  readonly db: DatabaseSync
  /** A table of (hash, seq). Also the name under which `meta` has the first seq that is not folded. */
  readonly table: string
  /** How many rows are noted before they are sorted and folded; a power of two up to the default. @defaultValue 32768 */
  readonly segmentRows?: number
}

export interface WriteBehindIndex {
  /** What is noted from here on must be noted again at opening: rows with this seq and later. */
  readonly from: number
  /** Notes a row. Seqs must rise; holes are allowed. */
  add(hash: number, seq: number): void
  /** The noted rows as a JSON list, for `IN (SELECT value FROM json_each(?))` beside the table's. */
  noted(hash: number): string
  /** The hashes of all noted rows. */
  notedHashes(): number[]
  /** Inside a transaction: folds up to `count` rows. */
  flush(count: number): void
  /** The transaction is on disk, or is undone. */
  finish(committed: boolean): void
  /** Whether a row that need not be noted is in the table. */
  has(hash: number, seq: number): boolean
  /** Inside a transaction: forgets a row. What is noted of it in memory is never folded. */
  remove(hash: number, seq: number): void
  /** Inside a transaction: names a row that is no new one. */
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
  /** How far the oldest full generation is folded: on disk, and in the transaction under way. */
  let folded = 0
  let folding = 0
  let finished = 0
  /** Rows that are noted and must not be folded: as many as there are noted rows, at most. */
  const removed = new Set<number>()
  /** In the transaction under way. */
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
        const end = Math.min(folding + left, entries.length)
        left -= end - folding
        for (; folding < end; folding += 1) {
          const entry = segment.entryAt(folding)
          if (!removed.has(entry[1])) insert.run(...entry)
        }
        if (end === entries.length) {
          finished += 1
          folding = 0
          remember.run(table, (full[finished] ?? current).from)
        }
      }
    },
    finish(committed) {
      if (!committed) folding = folded
      else {
        for (const seq of removing) removed.add(seq)
        if (finished > 0) {
          full = full.slice(finished)
          for (const seq of removed) if (seq < (full[0] ?? current).from) removed.delete(seq)
        }
      }
      removing.length = 0
      finished = 0
      folded = folding
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
  /** `hash * rows + place`, rising. */
  sorted(): Float64Array
  entryAt(index: number): readonly [hash: number, seq: number]
}

/** Chained hashing in three flat arrays, which the collector of garbage never has to walk. */
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
