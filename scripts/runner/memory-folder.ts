/**
 * A folder for temporary files that lies in memory, where the system offers one with room. Most tests open stores, and on
 * a disk they wait for it: the interference tests took 100 s on a busy machine, and 57 s in memory.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs'

const place = '/dev/shm'
const prefix = 'sluice-tests-'
/** Above all that a run was seen to write (0.4 GiB), and above the 64 MiB that containers often have there. */
const freeBytesMin = 4 * 2 ** 30

/** Its path; `undefined` where there is no memory for it. The folder is removed when this process ends. */
export function createMemoryFolder(): string | undefined {
  if (!existsSync(place)) return undefined
  removeOrphans()
  const { bavail, bsize } = statfsSync(place)
  if (bavail * bsize < freeBytesMin) return undefined
  const path = `${place}/${prefix}${process.pid}`
  mkdirSync(path)
  // PostgreSQL runs as a user of its own.
  chmodSync(path, 0o1777)
  process.once('exit', () => rmSync(path, { recursive: true, force: true }))
  return path
}

/** Removes the folders of runs that were killed. */
function removeOrphans(): void {
  for (const name of readdirSync(place)) {
    if (!name.startsWith(prefix) || existsSync(`/proc/${name.slice(prefix.length)}`)) continue
    try {
      rmSync(`${place}/${name}`, { recursive: true, force: true })
    } catch (error) {
      // A file system that a killed test has mounted there cannot be removed, and keeps nobody from a run.
      console.error(
        `${place}/${name} of a run that was killed stays (${error}): unmount what is in it, then remove it.`,
      )
    }
  }
}
