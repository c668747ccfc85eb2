/** Deletes old final notifications, a slice at a time so that no commit waits long behind it. */
import type { DatabaseSync } from 'node:sqlite'
import type { Tally } from '../../../ports.ts'
import { finalCodes, statusOf } from '../../status-codes.ts'
import type { RecipientIndex } from '../indexes/recipient-index.ts'
import type { Contents } from './contents.ts'
import type { FeedbackWrites } from './feedback.ts'
import type { Tallies } from './tallies.ts'

export interface Prune {
  /**
   * Deletes final notifications older than `before` among the next `max` rows after `from`. Returns the number by
   * tenant and status, and the next position; no `next` at the end.
   */
  prune(
    before: number,
    from: number,
    max: number,
  ): { readonly dropped: readonly Tally[]; readonly next?: number }
  /** The acceptance of the oldest notification on record; undefined where there is none. */
  oldestAt(): number | undefined
}

export function preparePrune(
  db: DatabaseSync,
  tallies: Tallies,
  register: RecipientIndex,
  contents: Pick<Contents, 'count'>,
  feedback: Pick<FeedbackWrites, 'forget'>,
): Prune {
  const select = db.prepare(`SELECT n.seq, n.id, n.tenant, n.created_at AS at, s.status,
      n.recipient, n.shared, s.status IN ${finalCodes} AND n.created_at < :before AND coalesce(s.fired_at, 0) < :before AS old
    FROM notifications n JOIN states s USING (seq) WHERE n.seq > :from ORDER BY n.seq LIMIT :max`)
  const removes = [
    db.prepare('DELETE FROM notifications WHERE seq = ?'),
    db.prepare('DELETE FROM states WHERE seq = ?'),
  ]

  const oldest = db.prepare('SELECT created_at AS at FROM notifications ORDER BY seq LIMIT 1')

  return {
    oldestAt: () => oldest.get()?.at as number | undefined,
    prune(before, from, max) {
      const rows = select.all({ before, from, max })
      const counts = new Map<string, Tally>()
      for (const row of rows) {
        if (row.old !== 1) continue
        const seq = row.seq as number
        for (const remove of removes) remove.run(seq)
        register.remove(row.tenant as string, row.recipient as string, seq)
        const [tenant, code] = [row.tenant as string, row.status as number]
        tallies.count(tenant, code, false, -1, 0)
        feedback.forget(tenant, row.id as string)
        if (row.shared !== null) contents.count(row.shared as string, -1, 0)
        const key = `${code} ${tenant}`
        const count = (counts.get(key)?.count ?? 0) + 1
        counts.set(key, { tenant, status: statusOf(code), throttled: false, count, bytes: 0 })
      }
      const dropped = [...counts.values()]
      const last = rows.at(-1)
      // Rows are in the order of acceptance, so the first young one ends the search.
      const ended = last === undefined || rows.length < max || (last.at as number) >= before
      return ended ? { dropped } : { dropped, next: last.seq as number }
    },
  }
}
