/**
 * Checksums of rows. SQLite checks the shape of its pages, not their content: without a checksum a byte that changed
 * on the disk would silently change an address or an hour. A CRC-32 of a kilobyte takes 0.4 µs.
 */
import { crc32 } from 'node:zlib'

/** SQLite's own code for a damaged file, so that both kinds of damage are handled alike (sqlite-errors.ts). */
const corrupt = 11

export function damageIn(what: string): Error {
  return Object.assign(new Error(what), { errcode: corrupt })
}

/** The checksum of a text, or of its bytes. */
export function checksumOf(text: string | Uint8Array): number {
  return crc32(text)
}

/** True if the text matches its checksum. A byte that changed may have made a number of it. */
export function isSound(text: unknown, sum: unknown): boolean {
  return typeof text === 'string' && crc32(text) === sum
}

/** A checksum that does not match: erasing parts of a damaged row must not make it sound. */
export function unsoundSumOf(text: string): number {
  return (crc32(text) ^ 1) >>> 0
}

/** Damage of one row, which is left out alone: the file around it is sound as far as is known. */
export class RowDamage extends Error {
  readonly what: string

  constructor(what: string) {
    super(`the check sum of ${what} is wrong`)
    this.what = what
  }
}

/** @throws RowDamage */
export function checksum(text: string, sum: unknown, what: string): void {
  if (!isSound(text, sum)) throw new RowDamage(what)
}

/** The rows that can be read, and the damage of the others. */
export interface Readable<T> {
  readonly found: readonly T[]
  readonly damaged: readonly string[]
}

export function readable<Row, T>(rows: readonly Row[], reader: (row: Row) => T): Readable<T> {
  const found: T[] = []
  const damaged: string[] = []
  for (const row of rows) {
    try {
      found.push(reader(row))
    } catch (error) {
      if (!(error instanceof RowDamage)) throw error
      damaged.push(error.what)
    }
  }
  return { found, damaged }
}
