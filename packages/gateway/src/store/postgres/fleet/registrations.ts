/**
 * The registrations of limiter servers in PostgreSQL. Numbers begin at a random one and grow by random steps, so that none is
 * given twice, not even in a schema that was made anew or restored. Under a new number nothing is filled before the calls
 * have ended that were begun under the one before.
 */
import { SluiceError } from '../../../errors.ts'
import type { NewestRegistrations, PlacedLife } from '../../../ports/limiter.ts'
import type { Db } from '../connection.ts'

/** The registrations on record. */
export interface RegistrationRecord extends Pick<NewestRegistrations, 'newest' | 'renumber'> {
  /**
   * Gives a life its number: the one it has while it is the newest of its node, also under another name of the node; else
   * the next one. Undefined while another process keeps the limits; `elsewhere` names the place in which running processes
   * count them, where this process would begin to count in another one.
   */
  register(life: PlacedLife): Promise<Registered | { readonly elsewhere: string } | undefined>
  /** Notes that the calls have ended that were begun before this number was given. */
  settle(number: number): Promise<void>
}

interface Registered {
  readonly number: number
  readonly isSettled: boolean
}

/** @param rightMs the time that a right to send lasts, ms */
export function createRegistrations(record: RegistrationRecord, rightMs: number): NewestRegistrations {
  return {
    newest: record.newest,
    renumber: record.renumber,
    async register(life) {
      const registered = await record.register(life)
      if (registered === undefined)
        throw new SluiceError('STATE_UNAVAILABLE', 'Another gateway keeps the limits.', {
          retryAfterMs: 1_000,
        })
      if ('elsewhere' in registered)
        throw new SluiceError(
          'STATE_UNAVAILABLE',
          `Gateways that are running count limits in the ${registered.elsewhere}, and this one would in the ${life.place.keyspace} of ${life.node}. It asks no limits until they have stopped; or give it the same state as theirs.`,
          { retryAfterMs: 1_000 },
        )
      const { number, isSettled } = registered
      if (isSettled) return number
      // Whoever finds the number unsettled waits the whole time, for nobody's clock says when it was given.
      await new Promise((resolve) => setTimeout(resolve, rightMs))
      await record.settle(number)
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
    async renumber() {
      await db.query('SELECT renumber_servers()')
    },
    async register({ node, runId, replicationId, place: { keyspace, masters } }) {
      const [row] = await db.query<{ number: number; is_settled: boolean; elsewhere: string | null }>(
        'SELECT * FROM register_server_in($1, $2, $3, $4, $5, $6)',
        [member, keyspace, masters, node, runId, replicationId],
      )
      if (row === undefined) return undefined
      const { number, is_settled: isSettled, elsewhere } = row
      return elsewhere === null ? { number, isSettled } : { elsewhere }
    },
    async settle(number) {
      await db.query('UPDATE limiter_server SET is_settled = true WHERE number = $1', [number])
    },
  }
  return createRegistrations(record, rightMs)
}
