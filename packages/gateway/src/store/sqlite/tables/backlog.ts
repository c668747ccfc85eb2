/**
 * Counts what waits and the dead letters by cell and second, once at the start: from then on the ledger counts each
 * change. The rows are found by the index of what is due and by that of digests, so that ended notifications, however
 * many are on record, cost nothing. The counting is done here rather than by GROUP BY and json_extract: for 100,000
 * waiting rows in 94,000 different seconds these took 970 ms of CPU, and this takes 480.
 */
import type { DatabaseSync } from 'node:sqlite'
import { type BacklogRow, backlogRowOf } from '../../../backlog-cell.ts'
import type { Notification } from '../../../model.ts'
import { dueCodes, statusOf } from '../../status-codes.ts'
import type { DueIndex } from '../indexes/due-index.ts'

/** The counts as they cross to another thread: few objects, and numbers in one array. */
export interface PackedBacklog {
  readonly cells: readonly Omit<BacklogRow, 'second' | 'count'>[]
  /** Three numbers for each count: the index of its cell, its second, the count. */
  readonly counts: Float64Array
}

export function prepareBacklog(db: DatabaseSync, { from }: Pick<DueIndex, 'from'>): () => PackedBacklog {
  const select = db.prepare(`
    WITH waiting (seq) AS (
      SELECT seq FROM due WHERE seq < ?1
      UNION ALL SELECT seq FROM states WHERE seq >= ?1 AND status IN ${dueCodes}
      UNION ALL SELECT seq FROM states INDEXED BY collecting WHERE status = 2
    )
    SELECT n.id, n.tenant, n.channel, n.category, s.status, s.due_at, s.timeline, n.decision
    FROM waiting w CROSS JOIN states s USING (seq) CROSS JOIN notifications n USING (seq)`)
  select.setReturnArrays(true)

  return () => {
    const cells = new Map<
      string,
      { readonly cell: PackedBacklog['cells'][number]; readonly seconds: Map<number, number> }
    >()
    for (const each of select.iterate(from)) {
      const row = each as unknown as readonly (string | number)[]
      const { second, ...cell } = backlogRowOf(waitingOf(row)) ?? {}
      if (second === undefined) continue
      const { tenant, channel, category, kind, reason, limit, provider, account } = cell as BacklogRow
      const key = [tenant, channel, category, kind, reason, limit, provider, account].join('\n')
      let counted = cells.get(key)
      if (counted === undefined) {
        counted = { cell: cell as BacklogRow, seconds: new Map() }
        cells.set(key, counted)
      }
      counted.seconds.set(second, (counted.seconds.get(second) ?? 0) + 1)
    }
    const found = [...cells.values()]
    const counts = new Float64Array(3 * found.reduce((sum, { seconds }) => sum + seconds.size, 0))
    let place = 0
    for (const [index, { seconds }] of found.entries()) {
      for (const [second, count] of seconds) {
        counts.set([index, second, count], place)
        place += 3
      }
    }
    return { cells: found.map(({ cell }) => cell), counts }
  }
}

/** The fields by which the backlog counts. A damaged row must not keep the gateway from starting. */
function waitingOf(row: readonly (string | number)[]): Notification {
  const [id, tenant, channel, category, status, dueAt, timeline, decision] = row
  return {
    ...{ id, tenant, channel, category, dueAt },
    status: statusOf(status as number),
    timeline: parsed(timeline as string, []),
    decision: parsed(decision as string, {}),
  } as unknown as Notification
}

function parsed(text: string, instead: object): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return instead
  }
}

export function unpackBacklog({ cells, counts }: PackedBacklog): readonly BacklogRow[] {
  return Array.from({ length: counts.length / 3 }, (_, at) => ({
    ...cells[counts[3 * at]!]!,
    second: counts[3 * at + 1]!,
    count: counts[3 * at + 2]!,
  }))
}
