/**
 * The two writes of the hot path: a notification is accepted, and it moves. Accepting adds a row to each of
 * `notifications` and `states`; a move rewrites the short row in `states` and adds its events. Only a move that
 * changes the channel or the decision touches the long row.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Move, Notification } from '../../../model.ts'
import { isDue, isPlatformDelayed, statusCodes } from './codes.ts'
import { eventsOf, orNull, requestOf } from './rows.ts'

export interface NotificationWrites {
  /** False where the id is on record already. */
  accept(notification: Notification): boolean
  /** The row's seq; `undefined` where the record is no longer what `before` says. */
  move(move: Move): number | undefined
}

export function prepareNotificationWrites(db: DatabaseSync): NotificationWrites {
  const insertNotification = db.prepare(`INSERT INTO notifications
    (id, tenant, recipient, channel, requested_channel, category, created_at, request, decision, opening)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
  const insertState = db.prepare('INSERT INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
  const updateState =
    db.prepare(`UPDATE states SET status = ?, revision = ?, due_at = ?, attempts = ?, fired_at = ?,
    suspect_at = ?, digest_id = ?, single = ?, undecided = ?, platform = ?, cause = ?
    WHERE seq = (SELECT seq FROM notifications WHERE id = ?) AND status = ? AND revision = ? RETURNING seq`)
  updateState.setReturnArrays(true)
  const updateNotification = db.prepare(
    'UPDATE notifications SET channel = ?, requested_channel = ?, decision = ? WHERE seq = ?',
  )
  const insertEvents = db.prepare('INSERT INTO events VALUES (? << 20 | ?, ?)')

  return {
    accept(notification) {
      const n = notification
      const { changes, lastInsertRowid } = insertNotification.run(
        n.id,
        n.tenant,
        n.to.id,
        n.channel,
        orNull(n.requestedChannel),
        n.category,
        n.createdAt,
        requestOf(n),
        JSON.stringify(n.decision),
        eventsOf(n.timeline),
      )
      if (changes === 0) return false
      insertState.run(
        lastInsertRowid,
        statusCodes[n.status],
        n.timeline.length,
        n.dueAt,
        n.attempts,
        orNull(n.firedAt),
        orNull(n.suspectAt),
        orNull(n.digestId),
        n.single ? 1 : 0,
        n.undecided ? 1 : 0,
        isPlatformDelayed(n) ? 1 : 0,
        causeOf(n),
      )
      return true
    },

    move({ before, after, events }) {
      const revision = before.timeline.length
      const row = updateState.get(
        statusCodes[after.status],
        revision + events.length,
        after.dueAt,
        after.attempts,
        orNull(after.firedAt),
        orNull(after.suspectAt),
        orNull(after.digestId),
        after.single ? 1 : 0,
        after.undecided ? 1 : 0,
        isPlatformDelayed(after) ? 1 : 0,
        causeOf(after),
        after.id,
        statusCodes[before.status],
        revision,
      ) as unknown as readonly [number] | undefined
      if (row === undefined) return undefined
      const [seq] = row
      insertEvents.run(seq, revision, eventsOf(events))
      if (
        after.decision !== before.decision ||
        after.channel !== before.channel ||
        after.requestedChannel !== before.requestedChannel
      ) {
        updateNotification.run(
          after.channel,
          orNull(after.requestedChannel),
          JSON.stringify(after.decision),
          seq,
        )
      }
      return seq
    },
  }
}

/** Why it is a dead letter: the reason of the event that made it one. */
function causeOf(notification: Notification): string | null {
  return notification.status === 'dead' ? orNull(notification.timeline.at(-1)?.reason) : null
}

/** Whether claims have to hear of a move: it came to another instant, or into or out of what is given out. */
export function changesPlace({ before, after }: Move): boolean {
  return before.dueAt !== after.dueAt || isDue(before.status) !== isDue(after.status)
}
