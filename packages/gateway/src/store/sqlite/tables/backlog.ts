/**
 * Counts what waits and the dead letters by cell and second, once at the start: from then on the ledger counts each
 * change. The rows are found by the index of what is due and by that of digests, so that ended notifications, however
 * many are on record, cost nothing. Measured: 0.19 s for 100,000 waiting (loaded).
 */
import type { DatabaseSync } from 'node:sqlite'
import type { BacklogCell, BacklogRow } from '../../../backlog-cell.ts'
import { dueCodes } from '../codec/codes.ts'
import type { DueIndex } from '../indexes/due-index.ts'

const kinds: Readonly<Record<number, BacklogCell['kind']>> = { 1: 'waiting', 2: 'waiting', 5: 'dead' }

export function prepareBacklog(
  db: DatabaseSync,
  { from }: Pick<DueIndex, 'from'>,
): () => readonly BacklogRow[] {
  // A damaged row must not keep the gateway from starting: what is no JSON counts without a reason.
  const last = (field: string): string =>
    `CASE WHEN json_valid(s.timeline) THEN json_extract(s.timeline, '$[#-1].${field}') END`
  const decided = (field: string): string =>
    `CASE WHEN json_valid(n.decision) THEN json_extract(n.decision, '$.${field}') END`
  const select = db.prepare(`
    WITH waiting (seq) AS (
      SELECT seq FROM due WHERE seq < ?1
      UNION ALL SELECT seq FROM states WHERE seq >= ?1 AND status IN ${dueCodes}
      UNION ALL SELECT seq FROM states INDEXED BY collecting WHERE status = 2
    ), found AS (
      SELECT n.id, n.tenant, n.channel, n.category, s.status, s.due_at,
        ${last('at')} AS at, ${last('reason')} AS reason, ${last('provider')} AS provider,
        ${last('account')} AS account, ${last('detail')} AS detail,
        ${decided('reason')} AS decided, ${decided('limit')} AS named
      FROM waiting w CROSS JOIN states s USING (seq) CROSS JOIN notifications n USING (seq)
    ), rows AS (
      SELECT *, iif(status IN (1, 2), coalesce(reason, decided), reason) AS why,
        iif(status = 5 AND at IS NOT NULL, at, due_at) AS instant
      FROM found
    )
    SELECT tenant, channel, category, status, why,
      iif(status <> 5 AND why IS decided, named, NULL) AS limited,
      iif(status = 5 OR why = 'retry', provider, NULL) AS by_provider,
      iif(status = 5 OR why = 'retry', account, NULL) AS by_account,
      (instant + 999) / 1000 AS second, count(*) AS count, max(id) AS example, iif(status = 5, detail, NULL) AS detail
    FROM rows GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9`)

  return () =>
    select.all(from).map((row) => ({
      tenant: String(row.tenant),
      channel: row.channel as BacklogRow['channel'],
      category: String(row.category),
      kind: kinds[row.status as number] ?? 'queued',
      ...(row.why === null ? {} : { reason: row.why as NonNullable<BacklogRow['reason']> }),
      ...(row.limited === null ? {} : { limit: String(row.limited) }),
      ...(row.by_provider === null ? {} : { provider: String(row.by_provider) }),
      ...(row.by_account === null ? {} : { account: String(row.by_account) }),
      second: Number(row.second),
      count: Number(row.count),
      example: String(row.example),
      ...(row.detail === null ? {} : { detail: String(row.detail) }),
    }))
}
