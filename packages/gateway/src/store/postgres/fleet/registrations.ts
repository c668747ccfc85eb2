/**
 * The registrations of limiter servers in PostgreSQL: numbers of a sequence, so that none is given twice. Under a new
 * number nothing is filled before the calls have ended that were begun under the one before.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Registrations } from '../../../registration-port.ts'
import type { Db } from '../connection.ts'

/** @param rightMs the time that a right to send lasts, ms */
export function createPostgresRegistrations(db: Db, rightMs: number): Registrations {
  return {
    async register({ node, runId, replicationId }) {
      const [row] = await db.query<{ number: number; is_settled: boolean }>(
        'SELECT * FROM register_server($1, $2, $3)',
        [node, runId, replicationId],
      )
      const { number, is_settled } = row!
      if (is_settled) return number
      // Whoever finds the number unsettled waits the whole time, for nobody's clock says when it was given.
      await sleep(rightMs)
      await db.query('UPDATE limiter_server SET is_settled = true WHERE node = $1 AND number = $2', [
        node,
        number,
      ])
      return number
    },
  }
}
