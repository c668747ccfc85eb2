/** Reads a whole schema in pages, within a transaction: each kind by a cursor, so that no page sorts anything again. */
import type { Job, Recipient, SharedContent } from '../../model.ts'
import type { LogRecord } from '../../ports/delivery-log.ts'
import type { WaitingReport } from '../../ports/feedback.ts'
import type { AccountRecord, HoldRecord, JobWork, StoredAnswer, TimeLine } from '../../ports.ts'
import type { EntryPage } from '../move.ts'
import { readRowsFor, type WholeRow } from './codec.ts'
import type { Db } from './connection.ts'
import { type DigestRow, columns as digestColumns, digestOf } from './digest-reads.ts'
import { eventOf, type FeedbackRow, sentOf, type sentRow } from './feedback.ts'
import { type PoisonRow, type PositionRow, poisonOf, positionOf } from './intake.ts'

/** Entries of a page; contents and jobs may have megabytes. */
const pageMax = 500
const largeMax = 4

/** Reads all rows of a question, some at a time. */
async function* rowsOf<Row extends object>(
  db: Db,
  text: string,
  max = pageMax,
): AsyncGenerator<readonly Row[]> {
  await db.query(`DECLARE pages NO SCROLL CURSOR FOR ${text}`)
  for (;;) {
    const rows = await db.query<Row>(`FETCH ${max} FROM pages`)
    if (rows.length > 0) yield rows
    if (rows.length < max) break
  }
  await db.query('CLOSE pages')
}

/** @param keys the names of the secret keys to read */
export async function* readPages(db: Db, keys: readonly string[]): AsyncGenerator<EntryPage> {
  const read = readRowsFor('0')
  for await (const rows of rowsOf<WholeRow>(
    db,
    `SELECT w.* FROM (SELECT id, seq FROM notification ORDER BY seq) p CROSS JOIN LATERAL
      (SELECT * FROM whole WHERE whole.id = p.id) w ORDER BY p.seq`,
  ))
    yield { kind: 'notification', entries: rows.map(read) }
  for await (const rows of rowsOf<{ id: string; tenant: string; bytes: number; body: object }>(
    db,
    'SELECT id, tenant, bytes, body FROM content',
    largeMax,
  ))
    yield {
      kind: 'content',
      entries: rows.map(({ body, ...of }) => ({ ...of, ...body }) as SharedContent),
    }
  for await (const rows of rowsOf<{ body: Recipient }>(db, 'SELECT body FROM recipient'))
    yield { kind: 'recipient', entries: rows.map(({ body }) => body) }
  for await (const rows of rowsOf<DigestRow>(db, `SELECT ${digestColumns} FROM digest`))
    yield { kind: 'digest', entries: rows.map(digestOf) }
  for await (const rows of rowsOf<{ job: Job; work: JobWork | null }>(
    db,
    'SELECT j.body AS job, k.body AS work FROM job j LEFT JOIN job_work k USING (id)',
    largeMax,
  ))
    yield {
      kind: 'job',
      entries: rows.map(({ job, work }) => ({ job, ...(work === null ? {} : { work }) })),
    }
  for await (const rows of rowsOf<StoredAnswer>(
    db,
    `SELECT tenant, module, method, path, key, hash AS "requestHash", status, body, created_at AS "createdAt" FROM answer`,
  ))
    yield { kind: 'answer', entries: rows }
  for await (const rows of rowsOf<{ body: AccountRecord }>(db, 'SELECT body FROM account'))
    yield { kind: 'account', entries: rows.map(({ body }) => body) }
  for await (const rows of rowsOf<{ body: HoldRecord }>(db, 'SELECT body FROM hold'))
    yield { kind: 'hold', entries: rows.map(({ body }) => body) }
  for await (const rows of rowsOf<FeedbackRow>(
    db,
    'SELECT seq, tenant, notification, key, category, type, at, kept_at, body FROM feedback ORDER BY seq',
  ))
    yield { kind: 'feedback', entries: rows.map(eventOf) }
  for await (const rows of rowsOf<WaitingReport>(
    db,
    'SELECT id, reporter, until, body FROM feedback_waiting',
  ))
    yield { kind: 'waitingReport', entries: rows }
  for await (const rows of rowsOf<ReturnType<typeof sentRow>>(
    db,
    'SELECT key, tenant, notification, sent_at FROM sent',
  ))
    yield { kind: 'sent', entries: rows.map(sentOf) }
  for await (const rows of rowsOf<{ body: string }>(db, 'SELECT body FROM outbox ORDER BY id', largeMax))
    yield { kind: 'log', entries: rows.flatMap(({ body }) => JSON.parse(body) as readonly LogRecord[]) }
  for await (const rows of rowsOf<PositionRow>(
    db,
    'SELECT topic_id, partition, next, ahead FROM intake_position',
  ))
    yield { kind: 'position', entries: rows.map(positionOf) }
  for await (const rows of rowsOf<PoisonRow>(
    db,
    'SELECT seq, topic_id, partition, at_offset, topic, tenant, at, detail, bytes, size FROM poison ORDER BY seq',
    largeMax,
  ))
    yield {
      kind: 'poison',
      entries: rows.map((row) => ({ ...poisonOf(row), bytes: row.bytes.toString('base64') })),
    }
  for await (const rows of rowsOf<{ tenant: string; recipient: string; newest: string | null }>(
    db,
    `SELECT tenant, recipient, (SELECT id FROM notification n WHERE n.seq <= e.until ORDER BY seq DESC LIMIT 1) AS newest
      FROM erasure e`,
  ))
    yield { kind: 'erasure', entries: rows }
  const lines = await db.query<{ value: TimeLine }>("SELECT value FROM meta WHERE name = 'time line'")
  yield { kind: 'timeLine', entries: lines.map(({ value }) => value) }
  const found = await db.query<{ name: string; value: Buffer }>(
    'SELECT name, value FROM secret WHERE name = ANY($1) ORDER BY name',
    [keys],
  )
  yield {
    kind: 'key',
    entries: found.map(({ name, value }) => ({ name, value: value.toString('base64') })),
  }
}
