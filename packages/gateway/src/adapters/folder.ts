/**
 * A folder that is there when it is needed, made level by level. Node's own recursive `mkdir` tries forever where a
 * file system answers that a folder does not exist which it will not make, as `/proc` does.
 */
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** @throws the system's error where it is no folder and cannot become one. */
export function makeFolder(path: string): void {
  if (isFolder(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path)
  } catch (error) {
    // Another process may have been quicker.
    if (!isFolder(path)) throw error
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}
