/**
 * Reads the names of what has passed the limits of its tenant since an instant. A window may have millions of them, and one
 * statement over all would end in its time-out each time: they are read in slices of the instants of their passes.
 */
import type { Db } from './connection.ts'

/** Names that one statement reads: some 20 ms of the server. */
const sliceMax = 10_000

/** Whichever ends meanwhile goes from `live` to `outcome`, and never back. */
export async function* turnedSince(db: Db, tenant: string, from: number): AsyncGenerator<readonly string[]> {
  for (const table of ['live', 'outcome']) {
    const where = `FROM ${table} WHERE tenant = $1 AND turned_at >= $2`
    for (let since: number | undefined = from; since !== undefined; ) {
      const ends: readonly { at: number }[] = await db.query<{ at: number }>(
        `SELECT turned_at AS at ${where} ORDER BY turned_at OFFSET $3 LIMIT 1`,
        [tenant, since, sliceMax],
      )
      const until: number | undefined = ends[0] && Math.max(ends[0].at, since + 1)
      const rows = await db.query<{ id: string }>(`SELECT id ${where} AND turned_at < $3`, [
        tenant,
        since,
        until ?? Number.MAX_SAFE_INTEGER,
      ])
      if (rows.length > 0) yield rows.map(({ id }) => id)
      since = until
    }
  }
}
