/** Takeover of notifications whose process died, or whose claim was lost on its way back. */
import type { HeldName, TakenOver, Takeover } from '../../ports.ts'
import { statusCodes } from '../status-codes.ts'
import type { ReadRow, WholeRow } from './codec.ts'
import type { Db } from './connection.ts'
import type { Writer } from './writer.ts'

export interface TakeoverParts {
  readonly db: Db
  readonly writer: Writer
  readonly member: string
  readonly read: ReadRow
}

/** Ends that are looked at, of all kinds: some 0.2 s of the server. */
const endsMax = 100_000
const releasedCodes = [statusCodes.cancelled, statusCodes.expired, statusCodes.suppressed].join(', ')

interface TakenRow {
  readonly may_have_left: boolean
  readonly taken: WholeRow
}

export function createTakeover({ db, writer, member, read }: TakeoverParts): Takeover {
  /** Takes rows of dead members, or of this one those with the names of `own`. */
  const take = (
    at: number,
    limit: number,
    without: readonly string[],
    own: readonly string[] | null,
  ): Promise<readonly TakenOver[]> =>
    writer.task(async ({ epoch, query }) => {
      const values = [member, epoch, at, limit, without, own]
      const rows = await query<TakenRow>('SELECT * FROM take_over($1, $2, $3, $4, $5, $6)', values)
      return rows.map((row) => ({ notification: read(row.taken), mayHaveLeft: row.may_have_left }))
    })

  return {
    takeOver: (at, limit, without = []) => take(at, limit, [...without], null),
    takeBack(at, names) {
      const own = names.map(({ id }) => id)
      return take(at, own.length, [], own)
    },
    async heldOnRecord(dueBy, after, limit) {
      const rows = await db.query<Omit<HeldName, 'right'> & { readonly right: number | null }>(
        // In the order of `live_owned`: a page does not read again what the pages before it have read.
        `SELECT tenant, id, due_at AS "dueAt", CASE WHEN begun_at <= $2 THEN begun_at END AS right FROM live
          WHERE owner > 0 AND owner + 0 = $1 AND due_at <= $2 AND due_at >= $3 AND (due_at, id) > ($3, $4)
          ORDER BY due_at, id LIMIT $5`,
        [member, dueBy, after?.dueAt ?? 0, after?.id ?? '', limit],
      )
      return rows.map(({ right, ...name }) => (right === null ? name : { ...name, right }))
    },
    async endRights(unused) {
      if (unused.length === 0) return
      await writer.task(({ query }) =>
        query(
          `UPDATE live SET begun_at = NULL FROM unnest($1::text[], $2::bigint[]) u(key, begun)
            WHERE live.id = u.key AND live.begun_at = u.begun AND live.owner + 0 = $3`,
          [unused.map(({ id }) => id), unused.map(({ right }) => right), member],
        ),
      )
    },
    async endedSince(at, limit) {
      // One without a state of its own ended with its acceptance, and held nothing.
      const rows = await db.query<WholeRow>(
        `SELECT w.* FROM (SELECT * FROM (SELECT id, at, status, state FROM outcome WHERE at >= $1 ORDER BY at DESC LIMIT ${endsMax}) e
            WHERE status IN (${releasedCodes}) AND state IS NOT NULL ORDER BY at DESC LIMIT $2) o
          CROSS JOIN LATERAL (SELECT * FROM whole WHERE whole.id = o.id OFFSET 0) w ORDER BY o.at DESC`,
        [at, limit],
      )
      return rows.map(read)
    },
  }
}
