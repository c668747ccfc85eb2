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
export function sumOf(text: string | Uint8Array): number {
  return crc32(text)
}

export function checkSum(text: string, sum: unknown, what: string): void {
  if (crc32(text) !== sum) throw damageIn(`check sum of ${what}`)
}
