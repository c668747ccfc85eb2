/**
 * Creates folders level by level. Node's own recursive `mkdir` retries forever on a file system that answers ENOENT
 * for a folder that it refuses to create, as `/proc` does. The folder and its files are readable by their owner
 * alone.
 */
import { chmodSync, closeSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Creates the folder where it is missing.
 *
 * @throws the system's error where it is no folder and cannot become one
 */
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
 * Creates an empty file where there is none. Only its owner may read or write it, also where it existed before, as
 * far as the file system supports owners. An existing file is not opened: closing a file releases the locks that its
 * process has on it (POSIX, fcntl).
 *
 * @throws the system's error where the file cannot be created
 */
export function makePrivateFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    makePrivate(path)
  }
}

/** Restricts a file that may exist to its owner. */
export function makePrivate(path: string): void {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode
  if (mode === undefined || (mode & 0o077) === 0) return
  try {
    chmodSync(path, mode & 0o700)
  } catch (error) {
    // The file of another owner, or on a file system without owners, keeps the rights that were chosen at mounting.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error
  }
}
