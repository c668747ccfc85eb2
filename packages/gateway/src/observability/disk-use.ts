/** The space that the embedded store takes on its disk, and what is left there. */
import { statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DiskUse } from './metrics.ts'

/** Sizes of the database and its log, and the free space beside them; undefined where they cannot be read. */
export function diskUse(path: string): DiskUse | undefined {
  try {
    const { bavail, blocks, bsize } = statfsSync(dirname(path))
    const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0
    return {
      files: { db: sizeOf(path), wal: sizeOf(`${path}-wal`) },
      freeBytes: bavail * bsize,
      totalBytes: blocks * bsize,
    }
  } catch {
    return undefined
  }
}
