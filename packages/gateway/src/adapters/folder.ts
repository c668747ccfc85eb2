/**
 * A folder that is there when it is needed, made level by level. Node's own recursive `mkdir` tries forever where a
 * file system answers that a folder does not exist which it will not make, as `/proc` does.
 * What it and the files in it hold is their owner's alone.
 */
import { chmodSync, closeSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** @throws the system's error where it is no folder and cannot become one. */
export function makeFolder(path: string): void {
  if (isFolder(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process may have been quicker.
    if (!isFolder(path)) throw error
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/**
 * Makes an empty file where there is none. Nobody but its owner may read or write it: also where it was there before,
 * and as far as the file system knows owners. What is there is not opened: whoever closes a file gives up the locks
 * that its process has on it (POSIX, fcntl).
 *
 * @throws the system's error where it cannot be made
 */
export function makePrivateFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    makePrivate(path)
  }
}

/** The same for a file that may be there. */
export function makePrivate(path: string): void {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode
  if (mode === undefined || (mode & 0o077) === 0) return
  try {
    chmodSync(path, mode & 0o700)
  } catch (error) {
    // Of a file of another owner's, or on a file system without owners: who mounted it has decided.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error
  }
}
