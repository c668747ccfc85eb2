/** The record of feedback on PostgreSQL. Its statements may be repeated, so they run beside the writing connection. */
import type {
  FeedbackEvent,
  FeedbackPage,
  FeedbackQuery,
  FeedbackRecord,
  ReportedNotification,
  SentRecord,
  WaitingReport,
} from '../../ports/feedback.ts'
import { pseudonymPrefix } from '../../ports.ts'
import type { Db } from './connection.ts'
import { isText } from './lists.ts'
import type { PseudonymOf } from './pseudonyms.ts'

/** Rows that are removed in one transaction. */
const pruneSlice = 500

/** A row as it is written: the columns, and `body` for the fields without one. */
export const feedbackRow = (event: FeedbackEvent) => {
  const { tenant, notificationId, key, category, type, at, keptAt, ...body } = event
  return { tenant, notification: notificationId, key, category, type, at, kept_at: keptAt, body }
}

export const sentRow = ({ key, tenant, notificationId, sentAt }: SentRecord) => ({
  key,
  tenant,
  notification: notificationId,
  sent_at: sentAt,
})

export const sentOf = ({ key, tenant, notification, sent_at }: ReturnType<typeof sentRow>): SentRecord => ({
  key,
  tenant,
  notificationId: notification,
  sentAt: sent_at,
})

export interface FeedbackRow extends Omit<ReturnType<typeof feedbackRow>, 'at' | 'kept_at'> {
  readonly seq: number
  readonly at: number
  readonly kept_at: number
}

export const eventOf = ({ seq: _, notification, kept_at, body, ...row }: FeedbackRow): FeedbackEvent => ({
  ...row,
  notificationId: notification,
  keptAt: kept_at,
  ...body,
})

/**
 * Writes events, and counts the complaints that are new. They get their numbers in the order of the call, and are written in
 * the order of their keys, so that two processes with the same events never wait for each other. The words of a provider are
 * left out where the recipient of the notification is erased, or the notification removed. An erasure or a removal that comes
 * later waits for the lock on the notification, and removes them; one that has locked it is not waited for, and they are left
 * out, too. Nothing else locks that row: changes and claims lock rows of `live`, `outcome` and `digest`.
 */
export const writeFeedback = `WITH asked AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('feedback', 'seq')) AS seq, x.* FROM (SELECT * FROM json_to_recordset($1)
      AS e(n int, tenant text, notification text, key text, category text, type text, at bigint, kept_at bigint, body jsonb)
      ORDER BY n) x
  ), named AS MATERIALIZED (
    SELECT id FROM notification WHERE id = ANY(ARRAY(SELECT notification FROM asked WHERE body ? 'detail'))
      AND recipient NOT LIKE '${pseudonymPrefix}%' FOR SHARE SKIP LOCKED
  ), added AS (
    INSERT INTO feedback (seq, tenant, notification, key, category, type, at, kept_at, body) OVERRIDING SYSTEM VALUE
      SELECT seq, tenant, notification, key, category, type, at, kept_at,
        CASE WHEN notification IN (SELECT id FROM named) THEN body ELSE body - 'detail' END FROM asked
      ORDER BY tenant, notification, key, n ON CONFLICT DO NOTHING RETURNING tenant, notification, key, category, type
  ), counted AS (
    INSERT INTO delivery_total AS t (category, tenant, slot, delivered, complained)
      SELECT category, tenant, 64, 0, count(*) FROM added WHERE type = 'complaint'
        GROUP BY category, tenant ORDER BY category, tenant
      ON CONFLICT (category, tenant, slot) DO UPDATE SET complained = t.complained + excluded.complained
  ) SELECT tenant, notification, key FROM added`

/**
 * Writes waiting reports within the bounds, $2 of all and $3 of one reporter, in the order of their keys, and answers those
 * that it knows to wait now.
 */
export const writeWaiting = `WITH asked AS (
    SELECT x.*, row_number() OVER (ORDER BY n) AS nth, row_number() OVER (PARTITION BY reporter ORDER BY n) AS nth_of
      FROM json_to_recordset($1) AS x(n int, id text, reporter text, until bigint, body text)
  ), added AS (
    INSERT INTO feedback_waiting (id, reporter, until, body) SELECT id, reporter, until, body FROM asked a
      WHERE (SELECT count(*) FROM feedback_waiting) + nth <= $2
        AND (SELECT count(*) FROM feedback_waiting w WHERE w.reporter = a.reporter) + nth_of <= $3
      ORDER BY id, n ON CONFLICT DO NOTHING RETURNING id
  ) SELECT id FROM added UNION SELECT w.id FROM feedback_waiting w JOIN asked USING (id)`

export const writeSent = `INSERT INTO sent AS s (key, tenant, notification, sent_at)
  SELECT DISTINCT ON (key) key, tenant, notification, sent_at FROM json_to_recordset($1)
    AS x(n int, key text, tenant text, notification text, sent_at bigint) ORDER BY key, n DESC
  ON CONFLICT (key) DO UPDATE SET tenant = excluded.tenant, notification = excluded.notification,
    sent_at = excluded.sent_at WHERE excluded.sent_at >= s.sent_at`

const columns = 'seq, tenant, notification, key, category, type, at, kept_at, body'
const nameOf = (tenant: string, notification: string, key: string): string =>
  JSON.stringify([tenant, notification, key])

export function createFeedback(db: Db, pseudonymOf: PseudonymOf): FeedbackRecord {
  async function page(
    where: string,
    values: readonly unknown[],
    { from, to, cursor, limit }: Pick<FeedbackQuery, 'from' | 'to' | 'cursor' | 'limit'>,
  ): Promise<FeedbackPage> {
    const [at = Number.MIN_SAFE_INTEGER, seq = 0] = cursor?.split('.').map(Number) ?? []
    const rows = await db.query<FeedbackRow>(
      `SELECT ${columns} FROM feedback WHERE at >= $1 AND at < $2 AND (at, seq) > ($3, $4) AND ${where}
        ORDER BY at, seq LIMIT $5`,
      [from, to, at, seq, limit, ...values],
    )
    const last = rows.at(-1)
    const nextCursor = last === undefined || rows.length < limit ? null : `${last.at}.${last.seq}`
    return { items: rows.map(eventOf), nextCursor }
  }

  async function untilFew(text: string, before: number): Promise<number> {
    for (let removed = 0; ; ) {
      const rows = await db.query(text, [before, pruneSlice])
      removed += rows.length
      if (rows.length < pruneSlice) return removed
    }
  }

  return {
    async keep(events) {
      if (events.length === 0) return []
      const rows = events.map((event, n) => ({ n, ...feedbackRow(event) }))
      const written = await db.query<{ tenant: string; notification: string; key: string }>(writeFeedback, [
        JSON.stringify(rows),
      ])
      const names = new Set(written.map(({ tenant, notification, key }) => nameOf(tenant, notification, key)))
      // Where one call holds the same event twice, the first is the new one.
      return events.map(({ tenant, notificationId, key }) =>
        names.delete(nameOf(tenant, notificationId, key)),
      )
    },
    async of(tenant, ids) {
      const rows = await db.query<FeedbackRow>(
        `SELECT ${columns} FROM feedback WHERE tenant = $1 AND notification = ANY($2) ORDER BY at, seq`,
        [tenant, ids.filter(isText)],
      )
      return rows.map(eventOf)
    },
    async keysOf(names) {
      const rows = await db.query<{ n: number; key: string }>(
        `SELECT n, f.key FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS x(tenant, notification, n)
          JOIN feedback f USING (tenant, notification)`,
        [names.map(({ tenant }) => tenant), names.map(({ notificationId }) => notificationId)],
      )
      const found = Map.groupBy(rows, ({ n }) => n)
      return names.map((_, index) => (found.get(index + 1) ?? []).map(({ key }) => key))
    },
    list: ({ tenant, category, type, ...range }) =>
      page('tenant = $6 AND category = $7 AND type = $8', [tenant, category, type], range),
    complaints: (range) => page("type = 'complaint'", [], range),
    async keepWaiting(reports, { ofOne, ofAll }) {
      if (reports.length === 0) return []
      const rows = JSON.stringify(reports.map((report, n) => ({ n, ...report })))
      const found = await db.query<{ id: string }>(writeWaiting, [rows, ofAll, ofOne])
      const ids = new Set(found.map(({ id }) => id))
      const others = reports.flatMap(({ id }) => (ids.has(id) ? [] : [id]))
      // One that another process was writing meanwhile was neither added nor there yet.
      if (others.length > 0)
        for (const { id } of await db.query<{ id: string }>(
          'SELECT id FROM feedback_waiting WHERE id = ANY($1)',
          [others],
        ))
          ids.add(id)
      return reports.map(({ id }) => ids.has(id))
    },
    waiting: (limit, after = '') =>
      db.query<WaitingReport>(
        'SELECT id, reporter, until, body FROM feedback_waiting WHERE id > $1 ORDER BY id LIMIT $2',
        [after, limit],
      ),
    async endWaiting(ids) {
      await db.query('DELETE FROM feedback_waiting WHERE id = ANY($1)', [ids])
    },
    async keepSent(records) {
      if (records.length === 0) return
      const rows = records.map((record, n) => ({ n, ...sentRow(record) }))
      await db.query(writeSent, [JSON.stringify(rows)])
    },
    async findSent(keys, since) {
      const rows = await db.query<ReturnType<typeof sentRow>>(
        'SELECT key, tenant, notification, sent_at FROM sent WHERE key = ANY($1) AND sent_at >= $2',
        [keys, since],
      )
      const found = new Map(rows.map((row) => [row.key, row]))
      return keys.map((key) => {
        const row = found.get(key)
        return row && sentOf(row)
      })
    },
    async reported(ids) {
      const rows = await db.query<ReportedNotification & { readonly erasing: boolean }>(
        `SELECT id, tenant, channel, category, body->'to' AS "to", state->'timeline' AS timeline,
            EXISTS (SELECT FROM erasure e WHERE e.tenant = w.tenant AND e.recipient = w.recipient) AS erasing
          FROM whole w WHERE id = ANY($1)`,
        [ids.filter(isText)],
      )
      const named = rows.map(
        ({ erasing, ...row }): ReportedNotification =>
          erasing ? { ...row, to: { id: pseudonymOf(row.tenant, row.to.id) } } : row,
      )
      const found = new Map(named.map((row) => [row.id, row]))
      return ids.map((id) => found.get(id))
    },
    prune: async ({ events, sent }) =>
      (await untilFew(
        `DELETE FROM feedback WHERE seq = ANY(ARRAY(SELECT seq FROM feedback WHERE kept_at < $1
          ORDER BY kept_at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1 AS one`,
        events,
      )) +
      (await untilFew(
        `DELETE FROM sent WHERE key = ANY(ARRAY(SELECT key FROM sent WHERE sent_at < $1
          ORDER BY sent_at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1 AS one`,
        sent,
      )),
  }
}
