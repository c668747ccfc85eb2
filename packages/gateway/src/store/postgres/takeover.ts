/** Takeover of notifications whose process died, or whose claim was lost on its way back. */
import type { HeldName, TakenOver, Takeover } from '../../ports.ts'
import type { ReadRow, WholeRow } from './codec.ts'
import type { Db } from './connection.ts'
import type { Writer } from './writer.ts'

export interface TakeoverParts {
  readonly db: Db
  readonly writer: Writer
  readonly member: string
  readonly read: ReadRow
}

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
        `SELECT tenant, id, CASE WHEN begun_at <= $2 THEN begun_at END AS right FROM live
          WHERE owner > 0 AND owner + 0 = $1 AND due_at <= $2 AND id > $3
          ORDER BY id LIMIT $4`,
        [member, dueBy, after ?? '', limit],
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
  }
}
