/** The outbox of the delivery log on PostgreSQL. Its statements may be repeated, so they run beside the writing connection. */
import type { LogRecord, Outbox, OutboxRow } from '../../ports/delivery-log.ts'
import type { LogText } from '../log-records.ts'
import type { Db } from './connection.ts'

export const writeOutbox = 'INSERT INTO outbox (entries, body) VALUES ($1, $2)'

/** The values of a row whose texts are joined already. */
export const outboxValues = ({ text, entries }: LogText): readonly [number, string] => [entries, text]

export function createOutbox(db: Db): Outbox {
  return {
    async read(limit) {
      const rows = await db.query<{ id: number; entries: number; body: string }>(
        `SELECT id, entries, body FROM (SELECT id, entries, body, sum(entries) OVER (ORDER BY id) - entries AS before
          FROM outbox ORDER BY id LIMIT $1) o WHERE before < $1 ORDER BY id`,
        [limit],
      )
      return rows.map(
        ({ id, entries, body }): OutboxRow => ({
          position: id,
          entries,
          records: JSON.parse(body) as readonly LogRecord[],
        }),
      )
    },
    async remove(positions) {
      await db.query('DELETE FROM outbox WHERE id = ANY($1)', [positions])
    },
    async size() {
      const [row] = await db.query<{ entries: number }>(
        'SELECT coalesce(sum(entries), 0)::bigint AS entries FROM outbox',
      )
      return row!.entries
    },
  }
}
