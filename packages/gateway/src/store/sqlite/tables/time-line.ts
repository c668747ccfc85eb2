/** The last saved time line of a process (adapters/clock.ts): two rows of the table of single values. */
import type { DatabaseSync } from 'node:sqlite'
import type { TimeLine } from '../../../ports.ts'

export function prepareTimeLine(db: DatabaseSync) {
  const upsert = db.prepare("INSERT OR REPLACE INTO meta VALUES ('line', ?), ('ahead', ?)")
  const select = db.prepare('SELECT value FROM meta WHERE name = ?')
  return {
    write({ at, aheadMs }: TimeLine): void {
      upsert.run(at, aheadMs)
    },
    read(): TimeLine | undefined {
      const at = select.get('line')?.value
      return at === undefined
        ? undefined
        : { at: Number(at), aheadMs: Number(select.get('ahead')?.value ?? 0) }
    },
  }
}
