/**
 * Translates SQLite's errors of a full, failing or damaged disk into the gateway's errors. A full or busy disk is
 * transient: nothing was written and the next commit tries afresh. A damaged file is permanent: nothing more is
 * written to it.
 */
import { SluiceError } from '../../errors.ts'
import { RowDamage } from './codec/checksum.ts'

/** Primary result codes, https://sqlite.org/rescode.html */
const disk = new Map([
  [5, 'another program holds it locked'],
  [6, 'it is locked'],
  [7, 'there is no memory for it'],
  [8, 'it may not be written'],
  [10, 'the disk failed'],
  [13, 'the disk is full'],
  [14, 'it cannot be opened'],
])
const damage = new Set([11, 26])

/** The time after which a client may retry, ms. */
export const retryAfterMs = 1_000

function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number')
    return undefined
  return error.errcode & 0xff
}

export function isDamage(error: unknown): boolean {
  return damage.has(primaryCode(error) ?? -1)
}

export function isBusy(error: unknown): boolean {
  return primaryCode(error) === 5
}

/** The error to raise for a disk fault; `undefined` for a mistake of this program. */
export function diskFault(error: unknown, path: string): SluiceError | undefined {
  if (isDamage(error)) return damaged(path, (error as Error).message, error)
  if (error instanceof RowDamage) {
    return new SluiceError(
      'STORE_UNAVAILABLE',
      `A row of the store file ${path} is damaged: ${error.message}. It is left out, and nobody else is concerned.`,
      { retryAfterMs, cause: error },
    )
  }
  const what = disk.get(primaryCode(error) ?? -1)
  if (what === undefined) return undefined
  return new SluiceError('STORE_UNAVAILABLE', `The store ${path} took nothing: ${what}.`, {
    retryAfterMs,
    cause: error,
  })
}

export function damaged(path: string, what: string, cause?: unknown): SluiceError {
  return new SluiceError(
    'STORE_UNAVAILABLE',
    `The store file ${path} is damaged (${what}). Nothing more is written to it: stop the gateway, keep the file, and restore a copy or recover it with "sqlite3 ${path} .recover".`,
    { retryAfterMs, cause },
  )
}

export function closed(path: string): SluiceError {
  return new SluiceError('STORE_UNAVAILABLE', `The store ${path} is closed.`, { retryAfterMs })
}
