/** Removal of what is older than its retention, in pages, so that no transaction holds anything for long. */
import type { Store, Tally } from '../../ports.ts'
import { statusOf } from '../status-codes.ts'
import type { Writer } from './writer.ts'

/** Rows that are removed in one transaction. */
const pruneSlice = 500
/** Contents that one statement looks at: some 10 ms. */
const contentSlice = 2_000

/** Removes what nothing names any more from a page of contents, and answers its last one; null at the end. */
const pruneContents = `WITH page AS MATERIALIZED (SELECT id FROM content WHERE id > $1 ORDER BY id LIMIT $2),
  gone AS (DELETE FROM content WHERE id = ANY(ARRAY(SELECT id FROM page p
    WHERE NOT EXISTS (SELECT FROM notification n WHERE n.shared = p.id)
      AND NOT EXISTS (SELECT FROM job j WHERE j.shared = p.id AND j.status = 'running'))))
  SELECT CASE WHEN count(*) = $2 THEN max(id) END AS last FROM page`

export async function prune(
  { writer, member }: { readonly writer: Writer; readonly member: string },
  before: Parameters<Store['prune']>[0],
): ReturnType<Store['prune']> {
  let rows = 0
  const tallies = new Map<string, Tally>()
  /** Repeats a statement that removes a page and answers the removed ids. */
  async function untilFew(text: string, values: readonly unknown[]): Promise<number> {
    for (let removed = 0; ; ) {
      const page = await writer.task(({ query }) => query(text, [...values, pruneSlice]))
      removed += page.length
      if (page.length < pruneSlice) return removed
    }
  }
  rows += await untilFew(
    `DELETE FROM answer WHERE ctid = ANY(ARRAY(SELECT ctid FROM answer WHERE created_at < $1
      ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1 AS id`,
    [before.answers],
  )
  for (let pruned = pruneSlice; pruned === pruneSlice; ) {
    const page = await writer.task(({ epoch, query }) =>
      query<{ tenant: string; status: number; count: number }>('SELECT * FROM prune_ended($1, $2, $3, $4)', [
        member,
        epoch,
        before.notifications,
        pruneSlice,
      ]),
    )
    pruned = 0
    for (const { tenant, status: code, count } of page) {
      const status = statusOf(code)
      const key = `${tenant}\n${status}`
      const sum = (tallies.get(key)?.count ?? 0) + count
      tallies.set(key, { tenant, status, throttled: false, count: sum, bytes: 0 })
      pruned += count
    }
    rows += pruned
  }
  rows += await untilFew(
    `DELETE FROM job WHERE id = ANY(ARRAY(SELECT id FROM job j WHERE status <> 'running' AND created_at < $1
      AND NOT EXISTS (SELECT FROM notification n WHERE n.job = j.id) LIMIT $2)) RETURNING id`,
    [before.notifications],
  )
  // All contents are looked at, and nearly all of them stay: in one statement the commits behind it would wait for that, and
  // with a million of them it would end in its time-out each time. A process that only looks how old the record is forgets
  // nothing, and leaves them to the one that prunes for all.
  for (let after: string | null = before.notifications > 0 ? '' : null; after !== null; ) {
    const [page]: readonly { last: string | null }[] = await writer.task(({ query }) =>
      query<{ last: string | null }>(pruneContents, [after, contentSlice]),
    )
    after = page!.last
  }
  // Ids are in the order of acceptance.
  const [oldest] = await writer.task(({ query }) =>
    query<{ at: number }>('SELECT created_at AS at FROM notification ORDER BY id LIMIT 1', []),
  )
  return {
    rows,
    tallies: [...tallies.values()],
    ...(oldest === undefined ? {} : { oldestAt: Number(oldest.at) }),
  }
}
