/** Records in PostgreSQL which process keeps the limits while their server answers none (migrations/0006-limits.sql). */
import type { Keeping, StandIn } from '../../../ports/limiter.ts'
import type { Db } from '../connection.ts'

/** Rows that are handed over in one statement. */
const handedMax = 1_000

/** @param member the id of this process */
export function createPostgresKeeping(db: Db, member: string): Keeping {
  return {
    async standIn() {
      const [row] = await db.query<{
        answer: Record<'number' | 'keeper', unknown> & { isReachable: boolean }
      }>('SELECT stand_in($1) AS answer', [member])
      const { number, keeper, isReachable } = row!.answer
      return {
        number: (number ?? undefined) as StandIn['number'],
        keeper: (keeper ?? undefined) as StandIn['keeper'],
        isReachable,
      }
    },
    async stepDown() {
      await db.query('SELECT step_down($1)', [member])
    },
    async handOver({ categories, areListed }) {
      const rows = await db.query<{ id: string }>('SELECT id FROM hand_over($1, $2, $3, $4)', [
        member,
        categories,
        areListed,
        handedMax,
      ])
      return rows.map(({ id }) => id)
    },
  }
}
