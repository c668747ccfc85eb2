/**
 * Check sums of rows. SQLite checks the shape of its pages, not their content: without a sum a byte that changed on
 * the disk would change an address or an hour in silence. A CRC-32 of a kilobyte takes 0.4 µs.
 */
import { crc32 } from 'node:zlib'

/** SQLite's own code for a damaged file, so that both kinds of damage take the same way (faults.ts). */
const corrupt = 11

export function damageIn(what: string): Error {
  return Object.assign(new Error(what), { errcode: corrupt })
}

/** Of a text, or of its bytes. */
export function checksumOf(text: string | Uint8Array): number {
  return crc32(text)
}

/** Whether it is what was written. */
export function isSound(text: string, sum: unknown): boolean {
  return crc32(text) === sum
}

/** A sum that does not fit: what is erased of a damaged row does not make it sound. */
export function unsoundSumOf(text: string): number {
  return (crc32(text) ^ 1) >>> 0
}

/** Damage of one row, which is left out alone: the file around it is sound as far as anybody knows. */
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

/** Of several rows those that can be read, and what the others are. */
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
