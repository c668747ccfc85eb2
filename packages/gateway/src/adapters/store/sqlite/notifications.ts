/**
 * The two writes of the hot path: a notification is accepted, and it moves. Accepting adds a row to each of
 * `notifications` and `states`; a move rewrites the short row in `states`. Only a move that changes the channel or
 * the decision touches the long row.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Register } from './register.ts'
import type { LongRow, ShortRow } from './rows.ts'
import type { ShortMove } from './tape.ts'

export interface NotificationWrites {
  /** False where the id is on record already. */
  accept(long: LongRow, short: ShortRow): boolean
  /** False where the record is no longer what the move believes. */
  move(move: ShortMove): boolean
  seqOf(id: string): number
}

export function prepareNotificationWrites(db: DatabaseSync, register: Register): NotificationWrites {
  const insertLong = db.prepare(`INSERT INTO notifications
    (seq, id, tenant, recipient, channel, requested_channel, category, created_at, request, decision, sum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
  const insertShort = db.prepare('INSERT INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
  // The number of events is the version: every move adds at least one. Measured for a hundred in a transaction: by
  // `changes` 6.2 µs, with a SELECT of the seq before it 6.5 µs, with RETURNING seq 8.2 µs, as REPLACE 6.3 µs.
  const updateShort =
    db.prepare(`UPDATE states SET status = ?, revision = ?, due_at = ?, attempts = ?, fired_at = ?,
    suspect_at = ?, digest_id = ?, single = ?, undecided = ?, platform = ?, cause = ?, timeline = ?, sum = ?
    WHERE seq = (SELECT seq FROM notifications WHERE id = ?) AND status = ? AND revision = ?`)
  const updateLong = db.prepare(
    'UPDATE notifications SET channel = ?, requested_channel = ?, decision = ?, sum = ? WHERE id = ?',
  )
  const selectSeq = db.prepare('SELECT seq FROM notifications WHERE id = ?')

  return {
    accept(long, short) {
      const seq = register.nextSeq()
      if (insertLong.run(seq, ...long).changes === 0) return false
      insertShort.run(seq, ...short)
      const [, tenant, recipient] = long
      register.add(tenant, recipient, seq)
      return true
    },

    move({ id, before, short, long }) {
      if (updateShort.run(...short, id, before.status, before.revision).changes === 0) return false
      if (long !== undefined) {
        const [, , , channel, requestedChannel, , , , decision, sum] = long
        updateLong.run(channel, requestedChannel, decision, sum, id)
      }
      return true
    },

    seqOf: (id) => selectSeq.get(id)?.seq as number,
  }
}
