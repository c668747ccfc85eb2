/**
 * Large values in parts: content, and the work of jobs. Its parts are written ahead of the row that refers to them, and
 * dropped after it, one a transaction either way: so a commit waits for one part of somebody else's megabytes at most.
 * Parts to which no row refers are nobody's: a process that ended between parts, and between a row and its parts, leaves
 * some behind, and the next one drops them.
 */
import type { DatabaseSync } from 'node:sqlite'
import { checksum, checksumOf, RowDamage } from '../codec/checksum.ts'
import { deletingSecurely } from '../secure-delete.ts'

/**
 * Bytes of one part. A value up to this size stays in its row: writing it takes some 2 ms.
 */
export const partBytes = 2 ** 18

/** A value that is written in parts: its key and their number. */
export interface InParts {
  readonly key: number
  readonly count: number
}

export interface Parts {
  write(key: number, number: number, body: Uint8Array): void
  /** Parts written or dropped since the opening. */
  written(): number
  /** Replaces all parts of a value, inside a transaction; returns their number. */
  rewrite(key: number, value: Uint8Array): number
  /** Marks a value whose row is gone: its parts are to be dropped. */
  doom(key: number): void
  /** A value whose parts are to be dropped; undefined where there is none. */
  doomed(): number | undefined
  /** Drops one part of the value, unless a row refers to it; true where nothing of it is left to drop. */
  drop(key: number): boolean
  /** Forgets a value of which nothing is left to drop. */
  forget(key: number): void
}

/** The text of a row whose body is in parts; it is what the row's checksum covers. */
export const placeholderOf = ({ key, count }: InParts): string => `${count} parts of ${key}`

/** The bytes that a row keeps of a value, and the key of its parts, if it is in parts. */
export function keptOf(value: Uint8Array | InParts): {
  readonly kept: Uint8Array
  readonly key: number | null
} {
  return value instanceof Uint8Array
    ? { kept: value, key: null }
    : { kept: Buffer.from(placeholderOf(value)), key: value.key }
}

/** The key for the next value: those on record are lower. */
export function nextPartsKey(db: DatabaseSync): number {
  return Number(db.prepare('SELECT coalesce(max(value), 0) + 1 AS next FROM parts').get()!.next)
}

/** The columns of a value for `readValue`, from its row `from` and its parts: a statement reads one state of both. */
export const valueColumns = (from: string): string =>
  `${from}.body, ${from}.sum, ${from}.parts, p.body AS part, p.sum AS "partSum"`
export const valueJoin = (from: string): string => `LEFT JOIN parts p ON p.value = ${from}.parts`
export const inOrder = 'ORDER BY p.number'

type Row = Record<string, unknown>

/**
 * Joins the value of a row; a value in parts comes as one row a part.
 * @throws RowDamage
 */
export function readValue(
  rows: readonly Row[],
  what: string,
): { readonly text: string } | { readonly bytes: Buffer } {
  const [{ body, sum, parts }] = rows as readonly [Row]
  checksum(body as string, sum, what)
  if (parts === null) return { text: body as string }
  if (body !== placeholderOf({ key: parts as number, count: rows.length })) throw new RowDamage(what)
  for (const { part, partSum } of rows)
    if (!(part instanceof Uint8Array) || checksumOf(part) !== partSum) throw new RowDamage(what)
  return { bytes: Buffer.concat(rows.map(({ part }) => part as Uint8Array)) }
}

export function prepareParts(db: DatabaseSync): Parts {
  const insert = db.prepare('INSERT INTO parts VALUES (?, ?, ?, ?)')
  const removeAll = db.prepare('DELETE FROM parts WHERE value = ?')
  const removeOne = db.prepare(
    'DELETE FROM parts WHERE rowid = (SELECT rowid FROM parts WHERE value = ? ORDER BY number LIMIT 1)',
  )
  const some = db.prepare('SELECT 1 FROM parts WHERE value = ? LIMIT 1')
  const isReferred = db.prepare(
    'SELECT EXISTS (SELECT 1 FROM contents WHERE parts = ?1) OR EXISTS (SELECT 1 FROM job_work WHERE parts = ?1) AS referred',
  )
  const doomed = new Set(
    db
      .prepare('SELECT DISTINCT value FROM parts')
      .all()
      .map(({ value }) => value as number)
      .filter((key) => isReferred.get(key)!.referred === 0),
  )

  let written = 0

  function write(key: number, number: number, body: Uint8Array): void {
    written += 1
    insert.run(key, number, body, checksumOf(body))
  }

  return {
    write,
    written: () => written,
    rewrite(key, value) {
      deletingSecurely(db, () => removeAll.run(key))
      let count = 0
      for (let at = 0; at < value.length; at += partBytes) {
        write(key, count, value.subarray(at, at + partBytes))
        count += 1
      }
      return count
    },
    doom: (key) => void doomed.add(key),
    doomed: () => doomed.values().next().value,
    drop(key) {
      // The transaction that took its row away may have been rolled back.
      if (isReferred.get(key)!.referred !== 0) return true
      deletingSecurely(db, () => removeOne.run(key))
      written += 1
      return some.get(key) === undefined
    },
    forget: (key) => void doomed.delete(key),
  }
}
