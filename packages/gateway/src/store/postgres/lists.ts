/** Lists, scans and lookups of notifications. A page examines a bounded number of rows and may end early. */
import { createHash } from 'node:crypto'
import type { Digest, Notification } from '../../model.ts'
import { isFinal } from '../../model.ts'
import type { DeadLetterQuery, ListQuery, Page, ScanQuery } from '../../ports.ts'
import type { FindWritten } from '../commit-lookup.ts'
import { cursorRefusal } from '../cursor-refusal.ts'
import { isListed } from '../memory/memory-rows.ts'
import { statusCodes } from '../status-codes.ts'
import { type ReadRow, type WholeRow, wholeOf } from './codec.ts'
import type { Db } from './connection.ts'

/** Rows that a page of a list examines at most: their index entries are read in about a millisecond. */
const examinedMax = 2_000
/** Bytes of the rows of a page that is read by what it collects, at most about. */
const pageBytes = 4 * 2 ** 20

/** A value that a column of text can hold: PostgreSQL knows no character 0. */
export const isText = (value: string): boolean => !value.includes('\0') && value.isWellFormed()

interface Position {
  readonly at: number
  readonly id: string
}

/** A cursor tells nothing but a notification of the tenant's own, and serves this tenant and this order only. */
function cursorOf({ tenant, order }: Ordered, { at, id }: Position): string {
  return Buffer.from(JSON.stringify([at, id, tagOf({ tenant, order }, at, id)])).toString('base64url')
}

type Ordered = { readonly tenant: string; readonly order?: ListQuery['order'] | 'dead letters' | undefined }

/** The list of operators over all tenants; a cursor of it is valid for a list of one of them, too. */
const deadLetterList: Ordered = { tenant: '', order: 'dead letters' }

const tagOf = ({ tenant, order }: Ordered, at: number, id: string): string =>
  createHash('sha256')
    .update(`${tenant}\0${order ?? ''}\0${at}\0${id}`)
    .digest('base64url')
    .slice(0, 11)

/** @throws SluiceError INVALID_REQUEST for a text that is no cursor of this list */
function readCursor(of: Ordered, text: string): Position {
  try {
    const [at, id, tag] = JSON.parse(Buffer.from(text, 'base64url').toString()) as [number, string, string]
    if (tag === tagOf(of, at, id) && cursorOf(of, { at, id }) === text) return { at, id }
  } catch {}
  throw cursorRefusal()
}

/** Rows that a scan of those that wait examines at most, where it selects few: some 20 ms of the server. */
const scannedMax = 20_000

interface ScannedIds {
  readonly ids: readonly string[]
  /** The last one examined; null at the end of the record. */
  readonly end: string | null
}

const scanAll = `SELECT ARRAY(SELECT id FROM notification WHERE id > $1 ORDER BY id LIMIT $2) AS ids,
  (SELECT id FROM notification WHERE id > $1 ORDER BY id OFFSET $2 - 1 LIMIT 1) AS "end"`

/** Ends at $2 rows that are selected, or at $3 rows. */
const scanLive = `WITH found AS MATERIALIZED (
    SELECT id FROM (SELECT id, status, channel, policy, begun_at FROM live WHERE id > $1 ORDER BY id LIMIT $3) l
      WHERE (status = ANY($4::int[]) OR begun_at IS NOT NULL) AND ($5::text[] IS NULL OR channel = ANY($5))
        AND policy IS DISTINCT FROM $6 ORDER BY id LIMIT $2)
  SELECT ARRAY(SELECT id FROM found ORDER BY id) AS ids, CASE WHEN (SELECT count(*) FROM found) < $2
    THEN (SELECT id FROM live WHERE id > $1 ORDER BY id OFFSET $3 - 1 LIMIT 1)
    ELSE (SELECT max(id) FROM found) END AS "end"`

/** Selects from the dead letters that the statement `examined` reads. */
const selectedDead = (examined: string, end: string): string => `WITH page AS MATERIALIZED (${examined})
  SELECT ARRAY(SELECT id FROM page WHERE ($2::text IS NULL OR tenant = $2) AND ($3::text IS NULL OR channel = $3)
    AND ($4::text[] IS NULL OR cause = ANY($4)) AND ($5::text IS NULL OR priority = $5) ORDER BY id LIMIT $6) AS ids, ${end} AS "end"`

/** Ends at $7 dead letters, of which few may be selected. */
const scanDead = selectedDead(
  'SELECT id, tenant, channel, cause, priority FROM live WHERE kind >= 10 AND id > $1 ORDER BY id LIMIT $7',
  'CASE WHEN (SELECT count(*) FROM page) = $7 THEN (SELECT max(id) FROM page) END',
)

/** Selects from the dead letters with the ids $7. */
const scanNamedDead = selectedDead(
  `SELECT l.* FROM (SELECT DISTINCT key FROM unnest($7::text[]) key WHERE key COLLATE "C" > $1) k
    CROSS JOIN LATERAL (SELECT id, tenant, channel, cause, priority FROM live WHERE id = k.key AND kind >= 10 OFFSET 0) l`,
  'NULL',
)

/** Digests at which one statement looks: some 10 ms of the server. */
const digestsMax = 1_000

/** Steps from digest to digest that collects anything: it costs as many steps as there are, however many items each has. */
const scanDigests = `WITH RECURSIVE d AS (
    (SELECT digest, 1 AS nth FROM live WHERE digest > $1 ORDER BY digest LIMIT 1)
    UNION ALL
    SELECT (SELECT l.digest FROM live l WHERE l.digest > d.digest ORDER BY l.digest LIMIT 1), nth + 1
      FROM d WHERE digest IS NOT NULL AND nth < $2
  ) SELECT min(d.digest) FILTER (WHERE NOT EXISTS (SELECT FROM digest o WHERE o.id = d.digest)) AS orphan,
    CASE WHEN count(digest) = $2 THEN max(digest) END AS "end" FROM d`

export interface Lists {
  notification(tenant: string, id: string): Promise<Notification | undefined>
  written: FindWritten
  list(query: ListQuery): Promise<Page<Notification>>
  deadLetters(query: DeadLetterQuery): Promise<Page<Notification>>
  scan(query: ScanQuery): Promise<Page<Notification>>
  waiting(
    tenant: string,
    recipient: string,
    cursor: string | null,
    limit: number,
  ): Promise<Page<Notification>>
  digestItems(digest: Pick<Digest, 'id'>, cursor: string | null, limit: number): Promise<Page<Notification>>
  orphans(cursor: string | null, limit: number): Promise<Page<Notification>>
}

const codes = (statuses: readonly Notification['status'][]): readonly number[] =>
  statuses.map((status) => statusCodes[status])

export function createLists(db: Db, member: string, read: ReadRow): Lists {
  /** Reads what a page shows: `limit` rows, and fewer where they are large. */
  function pageOf(
    rows: readonly WholeRow[],
    limit: number,
    cursor: (row: WholeRow) => string,
  ): Page<Notification> {
    let bytes = 0
    let shown = 0
    for (const row of rows.slice(0, limit)) {
      bytes += row.body.bytes ?? 0
      if (shown > 0 && bytes > pageBytes) break
      shown += 1
    }
    return {
      items: rows.slice(0, shown).map(read),
      nextCursor: rows.length > shown ? cursor(rows[shown - 1]!) : null,
    }
  }

  /** Index entries of a list, newest first, behind the cursor. */
  async function newest(query: ListQuery, after: Position | undefined): Promise<readonly Position[]> {
    const { tenant, recipient, job, from, to } = query
    const values: unknown[] = [tenant]
    const where = ['tenant = $1']
    const and = (text: string, value: unknown): void => {
      values.push(value)
      where.push(`${text} $${values.length}`)
    }
    if (recipient !== undefined) and('recipient =', recipient)
    if (job !== undefined) and('job =', job)
    if (from !== undefined) and('created_at >=', from)
    if (to !== undefined) and('created_at <', to)
    if (after !== undefined) {
      values.push(after.at, after.id)
      where.push(`(created_at, id) < ($${values.length - 1}, $${values.length})`)
    }
    return db.query<Position>(
      `SELECT id, created_at AS at FROM notification WHERE ${where.join(' AND ')}
        ORDER BY created_at DESC, id DESC LIMIT ${examinedMax}`,
      values,
    )
  }

  /**
   * Index entries of notifications that are to leave, the first to leave first: the free ones, those in memory and those that
   * are left to a broker.
   */
  function nextDue({ tenant, recipient }: ListQuery, after: Position | undefined) {
    const part = (index: string): string =>
      `(SELECT id, due_at FROM live WHERE ${index} AND tenant = $1 AND (due_at, id) > ($2, $3)
        AND ($4::text IS NULL OR recipient = $4) ORDER BY due_at, id LIMIT ${examinedMax})`
    return db.query<Position>(
      `SELECT id, due_at AS at FROM (${['owner IS NULL', 'owner > 0', 'owner = 0'].map(part).join(' UNION ALL ')}) l
        ORDER BY due_at, id LIMIT ${examinedMax}`,
      [tenant, after?.at ?? Number.MIN_SAFE_INTEGER, after?.id ?? '', recipient ?? null],
    )
  }

  const digestItems: Lists['digestItems'] = async ({ id }, cursor, limit) => {
    const rows = await db.query<WholeRow>(
      `SELECT w.* FROM (SELECT id FROM live WHERE digest = $1 AND seq > $2 ORDER BY seq LIMIT $3) l
        JOIN whole w USING (id) ORDER BY seq`,
      [id, Number(cursor ?? 0), limit + 1],
    )
    return pageOf(rows, limit, ({ seq }) => String(seq))
  }

  return {
    async notification(tenant, id) {
      if (!isText(id)) return undefined
      const [row] = await db.query<WholeRow>('SELECT * FROM whole WHERE id = $1 AND tenant = $2', [
        id,
        tenant,
      ])
      return row === undefined ? undefined : read(row)
    },

    async written(tenant, id) {
      const [row] = await db.query<WholeRow & { readonly others: boolean | null }>(
        `SELECT w.*, coalesce(l.writer, o.writer) <> $3 AS others
          FROM whole w LEFT JOIN live l ON l.id = w.id LEFT JOIN outcome o ON o.id = w.id
          WHERE w.id = $1 AND w.tenant = $2`,
        [id, tenant, member],
      )
      return row && { notification: read(row), isOthers: row.others === true }
    },

    async list(query) {
      const { limit, statuses, category, channel, ids } = query
      const texts = [query.recipient, query.job, category, ...(ids ?? [])]
      if (!texts.every((text) => text === undefined || isText(text))) return { items: [], nextCursor: null }
      const after = query.cursor === undefined ? undefined : readCursor(query, query.cursor)
      const examined = await (query.order === undefined ? newest(query, after) : nextDue(query, after))
      const items: Notification[] = []
      let bytes = 0
      let last: Position | undefined
      // A few rows at once: most pages need no more than the first.
      for (let from = 0; from < examined.length; from += 200) {
        const part = examined.slice(from, from + 200)
        const wanted = ids === undefined ? part : part.filter(({ id }) => ids.includes(id))
        const rows = await db.query<WholeRow>(
          `SELECT w.* FROM ${wholeOf('$1')}
            WHERE ($2::int[] IS NULL OR status = ANY($2) OR begun_at IS NOT NULL)
            AND ($3::text IS NULL OR category = $3) AND ($4::text IS NULL OR channel = $4)`,
          [
            wanted.map(({ id }) => id),
            statuses === undefined ? null : codes(statuses),
            category ?? null,
            channel ?? null,
          ],
        )
        const found = new Map(rows.map((row) => [row.id, row]))
        for (const place of part) {
          const row = found.get(place.id)
          const item = row === undefined ? undefined : read(row)
          if (item === undefined || !isListed(item, query)) continue
          if (items.length === limit || (items.length > 0 && bytes > pageBytes))
            return { items, nextCursor: cursorOf(query, last!) }
          items.push(item)
          bytes += item.bytes ?? 0
          last = place
        }
      }
      const end = examined.length < examinedMax ? undefined : examined.at(-1)
      return { items, nextCursor: end === undefined ? null : cursorOf(query, end) }
    },

    async deadLetters({ tenant, channel, cause, causes, priority, ids, cursor, limit }) {
      const wanted = cause === undefined ? causes : (causes?.filter((each) => each === cause) ?? [cause])
      const [found] = await db.query<ScannedIds>(ids === undefined ? scanDead : scanNamedDead, [
        cursor === undefined ? '' : readCursor(deadLetterList, cursor).id,
        tenant ?? null,
        channel ?? null,
        wanted ?? null,
        priority ?? null,
        limit + 1,
        ids === undefined ? scannedMax : ids.filter(isText),
      ])
      const { ids: dead, end } = found!
      const rows = await db.query<WholeRow>(`SELECT w.* FROM ${wholeOf('$1')} ORDER BY id`, [dead])
      // One that was redriven meanwhile is none any more.
      const still = rows.filter(({ status }) => status === statusCodes.dead)
      const { items, nextCursor } = pageOf(still, limit, ({ id }) => cursorOf(deadLetterList, { at: 0, id }))
      const last = dead.length > limit ? dead.at(-1)! : end
      if (nextCursor !== null || last === null) return { items, nextCursor }
      return { items, nextCursor: cursorOf(deadLetterList, { at: 0, id: last }) }
    },

    async scan({ statuses, channels, notPolicy, cursor = '', limit }) {
      const selected = [codes(statuses), channels ?? null, notPolicy ?? '']
      // Notifications that wait are found without the ended ones, and most of them without their JSON.
      const [found] = statuses.some(isFinal)
        ? await db.query<ScannedIds>(scanAll, [cursor, limit])
        : await db.query<ScannedIds>(scanLive, [cursor, limit, Math.max(limit, scannedMax), ...selected])
      const { ids, end } = found!
      if (ids.length === 0) return { items: [], nextCursor: end }
      const rows = await db.query<WholeRow>(
        `SELECT w.* FROM ${wholeOf('$1')} WHERE (status = ANY($2::int[]) OR begun_at IS NOT NULL)
          AND ($3::text[] IS NULL OR channel = ANY($3))
          AND state->'decision'->>'policyVersion' IS DISTINCT FROM $4 ORDER BY id`,
        [ids, ...selected],
      )
      const items = rows.map(read).filter(({ status }) => statuses.includes(status))
      return { items, nextCursor: end }
    },

    async waiting(tenant, recipient, cursor, limit) {
      const rows = await db.query<WholeRow>(
        `SELECT w.* FROM (SELECT id FROM live WHERE tenant = $1 AND recipient = $2 AND status IN (1, 2, 3)
            AND id > $3 AND (begun_at IS NULL OR owner + 0 = $5) ORDER BY id LIMIT $4) l JOIN whole w USING (id) ORDER BY id`,
        [tenant, recipient, cursor ?? '', limit + 1, member],
      )
      return pageOf(rows, limit, ({ id }) => id)
    },

    digestItems,

    async orphans(cursor, limit) {
      const [scanned] = await db.query<{ orphan: string | null; end: string | null }>(scanDigests, [
        cursor ?? '',
        digestsMax,
      ])
      const { orphan, end } = scanned!
      if (orphan === null) return { items: [], nextCursor: end }
      const { items } = await digestItems({ id: orphan }, null, limit)
      return { items, nextCursor: orphan }
    },
  }
}
