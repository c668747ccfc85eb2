/**
 * Counts what waits for each shared content. A start reads it, and of millions that wait one statement over all would end in its
 * time-out each time: they are counted in pages, each of which has all of its contents.
 */
import type { Store } from '../../ports.ts'
import type { Db } from './connection.ts'

/** Rows that one statement counts: some 40 ms of the server. */
const pageMax = 20_000

interface Counted {
  readonly shared: string
  readonly waiting: number
  readonly rows: number
}

const countOf = (rows: string): string =>
  `SELECT shared, count(*) FILTER (WHERE kind <> 11) AS waiting, count(*) AS rows FROM (${rows}) l GROUP BY shared ORDER BY shared`
const countPage = countOf('SELECT shared, kind FROM live WHERE shared > $1 ORDER BY shared LIMIT $2')
const countOne = countOf('SELECT shared, kind FROM live WHERE shared = $1')

/** Contents of running jobs count once for each job, of which there are few. */
const countJobs = `SELECT shared, count(*) AS waiting FROM job WHERE shared IS NOT NULL AND status = 'running' GROUP BY shared`

const contentsOf = `SELECT c.* FROM unnest($1::text[]) k(key)
  CROSS JOIN LATERAL (SELECT id, tenant, bytes FROM content WHERE id = k.key OFFSET 0) c`

export function createWaitingContents(db: Db): Pick<Store, 'waitingContents'> {
  /** Counts what waits for the contents behind an id, for each of them all that waits; an empty page is the last one. */
  async function pageBehind(after: string): Promise<readonly Counted[]> {
    const page = await db.query<Counted>(countPage, [after, pageMax])
    const isFull = page.reduce((sum, { rows }) => sum + rows, 0) === pageMax
    if (!isFull) return page
    // There may be more of the last one.
    return page.length > 1 ? page.slice(0, -1) : db.query<Counted>(countOne, [page[0]!.shared])
  }

  return {
    async waitingContents() {
      const waiting = new Map<string, number>()
      const add = (of: Pick<Counted, 'shared' | 'waiting'>): void => {
        if (of.waiting > 0) waiting.set(of.shared, of.waiting + (waiting.get(of.shared) ?? 0))
      }
      for (let page = await pageBehind(''); page.length > 0; page = await pageBehind(page.at(-1)!.shared))
        for (const counted of page) add(counted)
      for (const counted of await db.query<Counted>(countJobs)) add(counted)
      const ids = [...waiting.keys()]
      const found = []
      for (let from = 0; from < ids.length; from += pageMax) {
        const page = ids.slice(from, from + pageMax)
        for (const row of await db.query<{ id: string; tenant: string; bytes: number }>(contentsOf, [page]))
          found.push({ ...row, waiting: waiting.get(row.id)! })
      }
      return found
    },
  }
}
