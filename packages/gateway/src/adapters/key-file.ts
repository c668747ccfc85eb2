/** A secret key that is created when it is first needed and stays in a file that only its owner can read. */
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { SluiceError } from '../errors.ts'
import { makeFolder, makePrivate } from './folder.ts'

const keyBytes = 32

/**
 * Reads the key from the file, which is created where it is missing; without a file, the key lasts as long as the
 * process.
 *
 * @throws SluiceError `INVALID_CONFIG` where the file can neither be read nor written.
 */
export function keptKey(file: string | undefined): Buffer {
  if (file === undefined) return randomBytes(keyBytes)
  const made = randomBytes(keyBytes).toString('base64url')
  try {
    makeFolder(dirname(file))
    if (write(file, made)) return Buffer.from(made)
    makePrivate(file)
    return keyIn(file)
  } catch (error) {
    throw unusable(file, error)
  }
}

/**
 * Reads the key from a file that may be missing.
 *
 * @throws SluiceError `INVALID_CONFIG` where it cannot be read
 */
export function readKey(file: string | undefined): Buffer | undefined {
  if (file === undefined || !existsSync(file)) return undefined
  try {
    return keyIn(file)
  } catch (error) {
    throw unusable(file, error)
  }
}

const keyIn = (file: string): Buffer => Buffer.from(readFileSync(file, 'utf8').trim())

const unusable = (file: string, cause: unknown): SluiceError =>
  new SluiceError(
    'INVALID_CONFIG',
    `The key in ${file} can neither be read nor written: ${(cause as Error).message}.`,
    { cause },
  )

/** Writes the key unless the file has one already; true when it was written. The first process that writes decides. */
function write(file: string, key: string): boolean {
  try {
    writeFileSync(file, key, { flag: 'wx', mode: 0o600 })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}
