/** Feedback events, and the index of ids and addresses under which notifications were sent. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import type {
  FeedbackEvent,
  FeedbackQuery,
  NotificationName,
  SentRecord,
  WaitingBounds,
  WaitingReport,
} from '../../../ports/feedback.ts'
import { pseudonymPrefix } from '../../../ports.ts'
import { checksum, checksumOf, isSound, type Readable, readable, unsoundSumOf } from '../codec/checksum.ts'

const dayMs = 86_400_000
const dayOf = (instant: number): number => Math.floor(instant / dayMs)

/** A page of the rows that can be read, and the damage of the others. */
export interface FoundPage extends Readable<FeedbackEvent> {
  readonly nextCursor: string | null
}

type EventRow = Record<string, SQLOutputValue>
type Body = Pick<FeedbackEvent, 'channel' | 'permanent' | 'detail' | 'account'>

const columns = 'seq, tenant, notification, key, category, type, at, kept_at, body, sum'

function eventOf(row: EventRow): FeedbackEvent {
  const body = row.body as string
  checksum(body, row.sum!, `feedback ${row.seq}`)
  return {
    tenant: row.tenant as string,
    notificationId: row.notification as string,
    key: row.key as string,
    type: row.type as FeedbackEvent['type'],
    category: row.category as string,
    at: row.at as number,
    keptAt: row.kept_at as number,
    ...(JSON.parse(body) as Body),
  }
}

function waitingOf({ id, reporter, until, body, sum }: EventRow): WaitingReport {
  checksum(body as string, sum!, `waiting feedback ${id}`)
  return { id, reporter, until, body } as unknown as WaitingReport
}

const bodyOf = ({ channel, permanent, detail, account }: Body): string =>
  JSON.stringify({ channel, permanent, detail, account })

const placeOf = (cursor: string | undefined): readonly [at: number, seq: number] => {
  const [at = Number.MIN_SAFE_INTEGER, seq = 0] = cursor?.split('.').map(Number) ?? []
  return [at, seq]
}

/** Prepares the questions. */
export function prepareFeedbackReads(db: DatabaseSync) {
  const ofNotifications = db.prepare(`SELECT ${columns} FROM feedback
    WHERE tenant = ? AND notification IN (SELECT value FROM json_each(?)) ORDER BY at, seq`)
  const keys = db.prepare('SELECT key FROM feedback WHERE tenant = ? AND notification = ?')
  const range = 'at >= max(:from, :at) AND at < :to AND (at, seq) > (:at, :seq) ORDER BY at, seq LIMIT :limit'
  const byCategory = db.prepare(`SELECT ${columns} FROM feedback
    WHERE tenant = :tenant AND category = :category AND type = :type AND ${range}`)
  const complaints = db.prepare(`SELECT ${columns} FROM feedback WHERE type = 'complaint' AND ${range}`)
  const sent = db.prepare(`SELECT tenant, notification, sent_at AS sentAt FROM sent
    WHERE day = ? AND key = ? AND sent_at >= ?`)
  const bounds = db.prepare('SELECT min(day) AS first, max(day) AS last FROM sent')
  const waiting = db.prepare('SELECT * FROM feedback_waiting WHERE id > ? ORDER BY id LIMIT ?')

  function pageOf(rows: readonly EventRow[], limit: number): FoundPage {
    const last = rows.at(-1)
    const nextCursor = rows.length < limit || last === undefined ? null : `${last.at}.${last.seq}`
    return { ...readable(rows, eventOf), nextCursor }
  }

  return {
    feedbackOf: (tenant: string, ids: readonly string[]): Readable<FeedbackEvent> =>
      readable(ofNotifications.all(tenant, JSON.stringify(ids)), eventOf),
    feedbackKeys: (names: readonly NotificationName[]): readonly (readonly string[])[] =>
      names.map(({ tenant, notificationId }) =>
        keys.all(tenant, notificationId).map(({ key }) => key as string),
      ),
    listFeedback({ cursor, ...query }: FeedbackQuery): FoundPage {
      const [at, seq] = placeOf(cursor)
      return pageOf(byCategory.all({ ...query, at, seq }), query.limit)
    },
    complaints({ cursor, from, to, limit }: Omit<FeedbackQuery, 'tenant' | 'category' | 'type'>): FoundPage {
      const [at, seq] = placeOf(cursor)
      return pageOf(complaints.all({ from, to, limit, at, seq }), limit)
    },
    findSent(keys: readonly string[], since: number): readonly (SentRecord | undefined)[] {
      const { first, last } = bounds.get() as { first: number | null; last: number | null }
      if (first === null || last === null) return keys.map(() => undefined)
      return keys.map((key) => {
        for (let day = last; day >= Math.max(first, dayOf(since)); day -= 1) {
          const row = sent.get(day, key, since)
          if (row === undefined) continue
          const { tenant, notification, sentAt } = row as {
            tenant: string
            notification: string
            sentAt: number
          }
          return { key, tenant, notificationId: notification, sentAt }
        }
        return undefined
      })
    },
    waitingFeedback: (limit: number, after = ''): Readable<WaitingReport> =>
      readable(waiting.all(after, limit), waitingOf),
  }
}

/** Reads all reports that wait, for a move of the whole record. */
export const waitingReports = (db: DatabaseSync): Readable<WaitingReport> =>
  readable(db.prepare('SELECT * FROM feedback_waiting ORDER BY id').all(), waitingOf)

/** Reads all events in the order of recording, for a move of the whole record. */
export function* feedbackPages(db: DatabaseSync, max: number): Generator<Readable<FeedbackEvent>> {
  const following = db.prepare(`SELECT ${columns} FROM feedback WHERE seq > ? ORDER BY seq LIMIT ?`)
  for (let rows = following.all(0, max); rows.length > 0; rows = following.all(rows.at(-1)!.seq!, max))
    yield readable(rows, eventOf)
}

/** Reads the newest sent record of each key, for a move of the whole record. */
export function* sentRecords(db: DatabaseSync): Generator<SentRecord> {
  const newest = db.prepare(`SELECT key, tenant, notification AS notificationId, sent_at AS sentAt, max(day)
    FROM sent GROUP BY key`)
  for (const { 'max(day)': _, ...record } of newest.iterate()) yield record as unknown as SentRecord
}

export interface FeedbackWrites {
  keepFeedback(events: readonly FeedbackEvent[]): readonly boolean[]
  keepWaiting(reports: readonly WaitingReport[], bounds: WaitingBounds): readonly boolean[]
  endWaiting(ids: readonly string[]): void
  keepSent(records: readonly SentRecord[]): void
  /** Removes at most `max` rows that are older; returns their number. */
  pruneFeedback(before: { readonly events: number; readonly sent: number }, max: number): number
  /** Removes the words of providers about a notification whose recipient is erased, or which is removed. */
  forget(tenant: string, notificationId: string): void
}

export function prepareFeedbackWrites(db: DatabaseSync): FeedbackWrites {
  const insert = db.prepare(`INSERT OR IGNORE INTO feedback
    (tenant, notification, key, category, type, at, kept_at, body, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  // The rows are bounded, so counting them costs a millisecond at most.
  const insertWaiting = db.prepare(`INSERT OR IGNORE INTO feedback_waiting
    SELECT :id, :reporter, :until, :body, :sum WHERE (SELECT count(*) FROM feedback_waiting) < :ofAll
      AND (SELECT count(*) FROM feedback_waiting WHERE reporter = :reporter) < :ofOne`)
  const waits = db.prepare('SELECT 1 FROM feedback_waiting WHERE id = ?')
  const deleteWaiting = db.prepare('DELETE FROM feedback_waiting WHERE id = ?')
  const upsert = db.prepare('INSERT OR REPLACE INTO sent VALUES (?, ?, ?, ?, ?)')
  // Rows are in the order of recording.
  const pruneEvents = db.prepare(`DELETE FROM feedback WHERE seq IN
    (SELECT seq FROM (SELECT seq, kept_at FROM feedback ORDER BY seq LIMIT ?) WHERE kept_at < ?)`)
  const pruneSent = db.prepare(`DELETE FROM sent WHERE (day, key) IN
    (SELECT day, key FROM sent WHERE day < ? ORDER BY day, key LIMIT ?)`)
  const withDetail = db.prepare('SELECT seq, body, sum FROM feedback WHERE tenant = ? AND notification = ?')
  const update = db.prepare('UPDATE feedback SET body = ?, sum = ? WHERE seq = ?')
  const recipientOf = db.prepare('SELECT recipient FROM notifications WHERE id = ?')

  /** The recipient may have been erased since the report was read, or the notification removed: no erasure would find it. */
  function hasRecipient(notificationId: string): boolean {
    const recipient = recipientOf.get(notificationId)?.recipient as string | undefined
    return recipient?.startsWith(pseudonymPrefix) === false
  }

  return {
    keepFeedback: (events) =>
      events.map((event) => {
        const { tenant, notificationId, key, category, type, at, keptAt } = event
        const { detail: _, ...rest } = event
        const body = bodyOf(event.detail === undefined || hasRecipient(notificationId) ? event : rest)
        const sum = checksumOf(body)
        return insert.run(tenant, notificationId, key, category, type, at, keptAt, body, sum).changes === 1
      }),
    keepWaiting: (reports, { ofOne, ofAll }) =>
      reports.map((report) => {
        insertWaiting.run({ ...report, sum: checksumOf(report.body), ofOne, ofAll })
        return waits.get(report.id) !== undefined
      }),
    endWaiting(ids) {
      for (const id of ids) deleteWaiting.run(id)
    },
    keepSent(records) {
      for (const { key, tenant, notificationId, sentAt } of records)
        upsert.run(dayOf(sentAt), key, tenant, notificationId, sentAt)
    },
    pruneFeedback: ({ events, sent }, max) =>
      Number(pruneEvents.run(max, events).changes) + Number(pruneSent.run(dayOf(sent), max).changes),
    forget(tenant, notificationId) {
      for (const { seq, body, sum } of withDetail.all(tenant, notificationId)) {
        if (!isSound(body as string, sum)) {
          update.run('', unsoundSumOf(''), seq as number)
          continue
        }
        const { detail: _, ...rest } = JSON.parse(body as string) as Body
        const left = bodyOf(rest)
        update.run(left, checksumOf(left), seq as number)
      }
    },
  }
}
