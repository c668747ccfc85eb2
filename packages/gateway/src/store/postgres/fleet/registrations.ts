/**
 * The registrations of limiter servers in PostgreSQL: numbers of a sequence, so that none is given twice. Under a new
 * number nothing is filled before the calls have ended that were begun under the one before.
 */
import { SluiceError } from '../../../errors.ts'
import type { NewestRegistrations, ServerLife } from '../../../ports/limiter.ts'
import type { Db } from '../connection.ts'

/** The registrations on record. */
export interface RegistrationRecord extends Pick<NewestRegistrations, 'newest'> {
  /**
   * Gives a life its number: the one it has while it is the newest of its node, else the next one. Undefined while another
   * process keeps the limits.
   */
  register(life: ServerLife): Promise<{ readonly number: number; readonly isSettled: boolean } | undefined>
  /** Notes that the calls have ended that were begun under the number before. */
  settle(node: string, number: number): Promise<void>
}

/** @param rightMs the time that a right to send lasts, ms */
export function createRegistrations(record: RegistrationRecord, rightMs: number): NewestRegistrations {
  return {
    newest: record.newest,
    async register(life) {
      const registered = await record.register(life)
      if (registered === undefined)
        throw new SluiceError('STATE_UNAVAILABLE', 'Another gateway keeps the limits.', {
          retryAfterMs: 1_000,
        })
      const { number, isSettled } = registered
      if (isSettled) return number
      // Whoever finds the number unsettled waits the whole time, for nobody's clock says when it was given.
      await new Promise((resolve) => setTimeout(resolve, rightMs))
      await record.settle(life.node, number)
      return number
    },
  }
}

/**
 * @param member the id of this process
 * @param rightMs the time that a right to send lasts, ms
 */
export function createPostgresRegistrations(db: Db, member: string, rightMs: number): NewestRegistrations {
  const record: RegistrationRecord = {
    async newest() {
      const rows = await db.query<{ node: string; number: number }>('SELECT node, number FROM limiter_server')
      return new Map(rows.map(({ node, number }) => [node, number]))
    },
    async register({ node, runId, replicationId }) {
      const [row] = await db.query<{ number: number; is_settled: boolean }>(
        'SELECT * FROM register_server_for($1, $2, $3, $4)',
        [member, node, runId, replicationId],
      )
      return row && { number: row.number, isSettled: row.is_settled }
    },
    async settle(node, number) {
      await db.query('UPDATE limiter_server SET is_settled = true WHERE node = $1 AND number = $2', [
        node,
        number,
      ])
    },
  }
  return createRegistrations(record, rightMs)
}
