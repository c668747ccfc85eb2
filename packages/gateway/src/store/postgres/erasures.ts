/** Erasure of recipients: the rows stay for the counts, under a pseudonym, without addresses, content and details. */
import type { Job, Recipient } from '../../model.ts'
import type { Clock, JobWork, Store } from '../../ports.ts'
import { erasedAnswer } from '../erased-answer.ts'
import { erasureRecord, joinedText, textOf } from '../log-records.ts'
import { anonymousOf, type WholeRow } from './codec.ts'
import type { Db } from './connection.ts'
import { outboxValues, writeOutbox } from './outbox.ts'
import type { PseudonymOf } from './pseudonyms.ts'
import type { Writer } from './writer.ts'

/** Rows that are erased in one transaction. */
const eraseSlice = 200
/** Stored answers that one statement looks through: some 10 ms. */
const answersSlice = 5_000
/** Jobs that one statement looks through, and bytes of them as they are stored: some 10 ms, 100 ms where they are large. */
const jobsSlice = 1_000
const jobsBytes = 2 ** 20

interface FoundAnswer {
  /** Module, method, path and key. */
  readonly key: readonly string[]
  /** Absent where it does not contain the id. */
  readonly body: string | null
  /** The last one of a full page. */
  readonly last: boolean
}

interface RefusingPage {
  /** Ids of jobs that name the recipient. */
  readonly found: readonly string[]
  /** Null behind the last page. */
  readonly last: string | null
}

const lockRunning = `SELECT j.id FROM job j LEFT JOIN job_work k USING (id)
  WHERE j.status = 'running' AND j.tenant = $1 AND (position($2 IN j.body::text) > 0 OR position($2 IN k.body::text) > 0)
  ORDER BY j.id FOR UPDATE OF j`
const lockJobs = 'SELECT id FROM job WHERE id = ANY($1) ORDER BY id FOR UPDATE'

const refusingPage = `WITH page AS MATERIALIZED (
    SELECT id FROM (SELECT id, sum(pg_column_size(body)) OVER (ORDER BY id) - pg_column_size(body) AS before
      FROM (SELECT id, body FROM job WHERE id > $3 ORDER BY id LIMIT $4) j) k WHERE before < $5)
  SELECT ARRAY(SELECT j.id FROM page CROSS JOIN LATERAL (SELECT * FROM job WHERE job.id = page.id OFFSET 0) j
      WHERE j.tenant = $1 AND position($2 IN j.body::text) > 0) AS found,
    (SELECT max(id) FROM page) AS last`

export interface ErasuresParts {
  readonly db: Db
  readonly writer: Writer
  readonly pseudonymOf: PseudonymOf
  readonly clock: Pick<Clock, 'now'>
  /** True if the delivery log is to forget the recipient, too. */
  readonly isLogged: boolean
}

export function createErasures({
  db,
  writer,
  pseudonymOf,
  clock,
  isLogged,
}: ErasuresParts): Pick<Store, 'beginErasure' | 'erase' | 'erasures'> {
  /** Runs statements as one transaction of the writing connection. */
  const transaction = <T>(run: (db: Db) => Promise<T>): Promise<T> =>
    writer.task(async (connection) => {
      await connection.query('BEGIN')
      try {
        const result = await run(connection)
        await connection.query('COMMIT')
        return result
      } catch (error) {
        await connection.query('ROLLBACK').catch(() => {})
        throw error
      }
    })

  /** Takes the recipient out of the jobs that a statement locks, in the order of their ids: out of their refusals, or work too. */
  async function renameInJobs(
    connection: Db,
    [lock, values]: readonly [string, readonly unknown[]],
    {
      recipient,
      name,
      inWork,
    }: { readonly recipient: string; readonly name: string; readonly inWork: boolean },
  ): Promise<void> {
    const locked = await connection.query<{ id: string }>(lock, values)
    if (locked.length === 0) return
    // Read behind the locks: another erasure may have written the work while this one waited for it.
    const jobs = await connection.query<{ id: string; body: Job; work: JobWork | null }>(
      'SELECT id, j.body, k.body AS work FROM job j LEFT JOIN job_work k USING (id) WHERE id = ANY($1)',
      [locked.map(({ id }) => id)],
    )
    for (const { id, body, work } of jobs) {
      const refused = body.refused.map((each) =>
        each.recipient === recipient ? { ...each, recipient: name, detail: 'erased' } : each,
      )
      await connection.query('UPDATE job SET body = $2 WHERE id = $1', [
        id,
        JSON.stringify({ ...body, refused, renamed: (body.renamed ?? 0) + 1 }),
      ])
      if (work === null || !inWork) continue
      const recipients = work.recipients.map((each) => (each.id === recipient ? { id: name } : each))
      await connection.query('UPDATE job_work SET body = $2 WHERE id = $1', [
        id,
        JSON.stringify({ ...work, recipients }),
      ])
    }
  }

  /**
   * Takes the recipient out of the refusals of jobs, page by page beside the writing connection: a record may have a million
   * of them that have ended. One that was opened behind the beginning may have refused the recipient, too.
   */
  async function renameRefused(tenant: string, recipient: string, name: string): Promise<void> {
    for (let after: string | null = ''; after !== null; ) {
      const pages: readonly RefusingPage[] = await db.query<RefusingPage>(refusingPage, [
        tenant,
        JSON.stringify(recipient),
        after,
        jobsSlice,
        jobsBytes,
      ])
      const { found, last }: RefusingPage = pages[0]!
      if (found.length > 0)
        await transaction((connection) =>
          renameInJobs(connection, [lockJobs, [found]], { recipient, name, inWork: false }),
        )
      after = last
    }
  }

  /** Erases some of the recipient's rows that have ended; false when none is left. */
  const eraseSome = (tenant: string, recipient: string, name: string): Promise<boolean> =>
    transaction(async (connection) => {
      // The ends are locked first, as the retention does (`prune_ended`): it passes over those that are being erased. In the
      // order of an index: all that is left of the recipient would be sorted for each slice.
      const rows = await connection.query<WholeRow>(
        `SELECT w.* FROM whole w JOIN outcome o USING (id) WHERE w.tenant = $1 AND w.recipient = $2
          AND w.seq <= (SELECT until FROM erasure WHERE tenant = $1 AND recipient = $2) ORDER BY w.created_at, w.id LIMIT $3
          FOR UPDATE OF o`,
        [tenant, recipient, eraseSlice],
      )
      const erased = JSON.stringify(rows.map((row) => anonymousOf(row, name)))
      await connection.query(
        `WITH e AS MATERIALIZED (
            SELECT * FROM json_to_recordset($1) AS x(id text, recipient text, body json, state json)
          ), o AS (UPDATE outcome SET state = e.state FROM e WHERE outcome.id = e.id)
          UPDATE notification SET recipient = e.recipient, body = e.body, first = e.state, shared = NULL
            FROM e WHERE notification.id = e.id`,
        [erased],
      )
      await connection.query(
        "UPDATE feedback SET body = body - 'detail' WHERE tenant = $1 AND notification = ANY($2)",
        [tenant, rows.map(({ id }) => id)],
      )
      await connection.query(
        `DELETE FROM content c WHERE c.id = ANY($1) AND NOT EXISTS (SELECT FROM notification n WHERE n.shared = c.id)
          AND NOT EXISTS (SELECT FROM job j WHERE j.shared = c.id AND j.status = 'running')`,
        [rows.flatMap(({ body }) => body.shared?.id ?? [])],
      )
      return rows.length === eraseSlice
    })

  /** Takes the recipient out of stored answers, page by page beside the writing connection: a tenant may have millions. */
  async function renameInAnswers(tenant: string, recipient: string, name: string): Promise<void> {
    const answerOf = '(tenant, module, method, path, key) = ($1, $2, $3, $4, $5)'
    /** Writes what it has read only: another recipient of the same batch may be erased meanwhile. */
    async function renameInAnswer(key: readonly string[], body: string): Promise<void> {
      for (let read: string | undefined = body; read !== undefined; ) {
        const erased = erasedAnswer(read, recipient, name)
        if (erased === read) return
        const written = await db.query(
          `UPDATE answer SET body = $6 WHERE ${answerOf} AND body = $7 RETURNING status`,
          [...key, erased, read],
        )
        if (written.length > 0) return
        const [now] = await db.query<{ body: string }>(`SELECT body FROM answer WHERE ${answerOf}`, key)
        read = now?.body
      }
    }
    // A range of the primary key: an equal tenant would be planned to sort all answers of that tenant for each page.
    for (let last: readonly string[] | undefined = ['', '', '', '']; last !== undefined; ) {
      const found: readonly FoundAnswer[] = await db.query<FoundAnswer>(
        `SELECT ARRAY[module, method, path, key] AS key, body, nth = $7 AS last FROM (
            SELECT module, method, path, key, CASE WHEN position($6 IN body) > 0 THEN body END AS body,
                row_number() OVER () AS nth FROM (
              SELECT * FROM answer WHERE (tenant, module, method, path, key) > ($1, $2, $3, $4, $5) AND tenant <= $1
                ORDER BY tenant, module, method, path, key LIMIT $7) page) p
          WHERE body IS NOT NULL OR nth = $7`,
        [tenant, ...last, JSON.stringify(recipient), answersSlice],
      )
      for (const { key, body } of found) if (body !== null) await renameInAnswer([tenant, ...key], body)
      last = found.find((each) => each.last)?.key
    }
  }

  /**
   * Removes digests without items, which would name the recipient until they close. One that an item joins meanwhile
   * stays: the lock waits for that, and the statement behind it sees the item. It has the address no more as which it is held.
   */
  async function forgetDigests(connection: Db, tenant: string, recipient: string): Promise<void> {
    const digests = await connection.query<{ id: string }>(
      'SELECT id FROM digest WHERE tenant = $1 AND recipient = $2 ORDER BY id FOR UPDATE',
      [tenant, recipient],
    )
    if (digests.length === 0) return
    const ids = [digests.map(({ id }) => id)]
    await connection.query(
      'DELETE FROM digest d WHERE id = ANY($1) AND NOT EXISTS (SELECT FROM live l WHERE l.digest = d.id)',
      ids,
    )
    await connection.query('UPDATE digest SET held_as = NULL WHERE id = ANY($1)', ids)
  }

  return {
    beginErasure: (tenant, recipient) =>
      transaction(async (connection) => {
        const name = pseudonymOf(tenant, recipient)
        const running = [lockRunning, [tenant, JSON.stringify(recipient)]] as const
        await renameInJobs(connection, running, { recipient, name, inWork: true })
        // Waits for reports that change the recipient: none is written behind this.
        await connection.query('SELECT pg_advisory_xact_lock(erasure_lock($1, $2))', [tenant, recipient])
        const [known] = await connection.query<{ body: Recipient }>(
          'DELETE FROM recipient WHERE tenant = $1 AND id = $2 RETURNING body',
          [tenant, recipient],
        )
        const { optOuts = [] } = known?.body ?? {}
        if (optOuts.length > 0)
          await connection.query(
            `INSERT INTO recipient (tenant, id, version, body) VALUES ($1, $2, nextval('recipient_version'), $3)
              ON CONFLICT (tenant, id) DO UPDATE SET version = excluded.version, body = excluded.body`,
            [tenant, name, JSON.stringify({ tenant, id: name, optOuts })],
          )
        await connection.query(
          `INSERT INTO erasure (tenant, recipient, until) VALUES ($1, $2, nextval('acceptance'))
            ON CONFLICT (tenant, recipient) DO UPDATE SET until = excluded.until`,
          [tenant, recipient],
        )
      }),

    async erase(tenant, recipient) {
      const name = pseudonymOf(tenant, recipient)
      // In one statement: a digest of what waited is accepted behind the beginning, and either it is seen here, or its
      // items are. Another process may have ended the erasure; then what waits is of a recipient who came back.
      const [looked] = await writer.task((connection) =>
        connection.query<{ until: number; open: string[] }>(
          `UPDATE erasure SET until = nextval('acceptance') WHERE tenant = $1 AND recipient = $2
            RETURNING until, ARRAY(SELECT id FROM live WHERE tenant = $1 AND recipient = $2) AS open`,
          [tenant, recipient],
        ),
      )
      if (looked === undefined) return { done: true }
      if (looked.open.length > 0) return { done: false, open: looked.open }
      while (await eraseSome(tenant, recipient, name));
      await renameInAnswers(tenant, recipient, name)
      await renameRefused(tenant, recipient, name)
      await transaction(async (connection) => {
        if (isLogged) {
          const erasure = textOf([erasureRecord(tenant, recipient, clock.now())])
          await connection.query(writeOutbox, outboxValues(joinedText([erasure])))
        }
        await forgetDigests(connection, tenant, recipient)
        // Another process that erases the same recipient has looked since, and may cancel more: it ends the erasure.
        await connection.query('DELETE FROM erasure WHERE tenant = $1 AND recipient = $2 AND until = $3', [
          tenant,
          recipient,
          looked.until,
        ])
      })
      return { done: true }
    },

    erasures: () =>
      db.query<{ tenant: string; recipient: string }>('SELECT tenant, recipient FROM erasure ORDER BY until'),
  }
}
