/**
 * Lists and searches, a page at a time, each at a bounded cost: a page examines a bounded number of rows in the order
 * of an index and then ends, with or without items, and its cursor continues there. The bytes that it reads are
 * bounded too. All queries are read-only, so that they can run on a connection beside the writer's.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import type { Notification } from '../../../model.ts'
import type { DeadLetterQuery, ListQuery } from '../../../ports.ts'
import { dueCodes, statusCodes, statusOf } from '../../status-codes.ts'
import type { Row } from '../codec/rows.ts'
import { columns, createdAtOf, dueAtOf, requestLengthOf, seqOf } from '../codec/rows.ts'
import type { HashKey } from '../indexes/hash.ts'
import { recipientHash } from '../indexes/hash.ts'
import type { Cursors } from './cursor.ts'

export interface RowPage {
  readonly rows: readonly Row[]
  readonly nextCursor: string | null
}

/** A place of the due index: its instant, and the seq of the row. */
export type DuePlace = readonly [dueAt: number, seq: number]

export interface Queries {
  notification(tenant: string, id: string): Row | undefined
  /** Finds notifications of any tenant by their ids. */
  notificationsOf(ids: readonly string[]): readonly Row[]
  /** Lists notifications. `noted` are the seqs of the recipient's rows that are not flushed to the table yet. */
  list(query: ListQuery, noted: readonly number[]): RowPage
  /** Opens the cursor of a list in the order of `sendAt`: the place after which it goes on. */
  dueAfter(query: ListQuery): DuePlace
  /** Lists notifications of these places of the due index, the next ones of the list; fewer than `dueMax` end it. */
  listDue(query: ListQuery, places: readonly DuePlace[]): RowPage
  deadLetters(query: DeadLetterQuery): RowPage
  jobMembers(tenant: string, id: string): readonly Pick<Notification, 'id' | 'status'>[]
}

export interface QueriesOptions {
  readonly db: DatabaseSync
  readonly key: HashKey
  readonly cursors: Cursors
  /**
   * Rows that one page examines: 0.35 µs each where they are cached, so that a page takes some 2 ms.
   *
   * @defaultValue 5_000
   */
  readonly scanMax?: number
  /** Bytes of requests that one page reads; at least one row. @defaultValue 4_194_304 */
  readonly pageBytesMax?: number
}

/** Places of the due index that one page of a list in the order of `sendAt` examines. */
export const dueMax = 2_000

type Condition = readonly [sql: string, ...values: SQLInputValue[]] | undefined | false
/** The rows that a page examines: their seqs in the order of the list, and the place after the last of them. */
interface Candidates {
  readonly sql: string
  readonly values: readonly SQLInputValue[]
  /** The start of the next page; absent where there are no more. */
  readonly next?: readonly number[]
}

export function prepareQueries(options: QueriesOptions): Queries {
  const { db, key, cursors, scanMax = 5_000, pageBytesMax = 4 * 2 ** 20 } = options
  // A request is some 4 KiB at most, and is read as a whole: 2 to 8 µs a row.
  const requestsScanMax = Math.ceil(scanMax / 5)
  // One statement a combination of filters: at most a few dozen.
  const statements = new Map<string, StatementSync>()
  function prepared(sql: string): StatementSync {
    let statement = statements.get(sql)
    if (statement === undefined) {
      statement = db.prepare(sql)
      statement.setReturnArrays(true)
      statements.set(sql, statement)
    }
    return statement
  }

  /** The place of the last row of a full scan; undefined where the index ends before. */
  function lastOf(sql: string, values: readonly SQLInputValue[], max: number): readonly number[] | undefined {
    const place = prepared(`${sql} LIMIT 1 OFFSET ?`).get(...values, max - 1)
    return place as unknown as readonly number[] | undefined
  }

  function indexed(
    select: (columns: string) => string,
    place: string,
    values: readonly SQLInputValue[],
    max = scanMax,
  ): Candidates {
    const next = lastOf(select(place), values, max)
    const sql = `(${select('seq')} LIMIT ${max})`
    return next === undefined ? { sql, values } : { sql, values, next }
  }

  function given(seqs: readonly number[], next: number | undefined): Candidates {
    const sql = '(SELECT value AS seq FROM json_each(?))'
    const values = [JSON.stringify(seqs)]
    return next === undefined ? { sql, values } : { sql, values, next: [next] }
  }

  /** Rows of the tenant, or of a job, newest first. */
  function ofTenant(query: ListQuery, after: readonly number[] | undefined): Candidates {
    const { tenant, from, to, job } = query
    const conditions: Condition[] = [
      job === undefined ? ['tenant = ?', tenant] : ['job = ?', job],
      from !== undefined && ['created_at >= ?', from],
      to !== undefined && ['created_at < ?', to],
      after && ['(created_at, seq) < (?, ?)', after[0]!, after[1]!],
    ]
    const [where, values] = both(conditions)
    const index = job === undefined ? 'by_tenant' : 'by_job'
    return indexed(
      (what) =>
        `SELECT ${what} FROM notifications INDEXED BY ${index} WHERE ${where} ORDER BY created_at DESC, seq DESC`,
      'created_at, seq',
      values,
      readsRequest(query) ? requestsScanMax : scanMax,
    )
  }

  const ofHash = db.prepare(
    'SELECT seq FROM recipient_rows WHERE hash = ? AND seq < ? ORDER BY seq DESC LIMIT ?',
  )
  ofHash.setReturnArrays(true)

  /** Rows of a recipient in the reverse order of acceptance, from the index and from the rows not flushed to it yet. */
  function ofRecipient(
    { tenant, recipient }: ListQuery,
    after: readonly number[] | undefined,
    noted: readonly number[],
  ): Candidates {
    const before = after?.[0] ?? Number.MAX_SAFE_INTEGER
    const found = ofHash.all(recipientHash(key, tenant, recipient!), before, scanMax) as unknown as [number][]
    const seqs = new Set(found.map(([seq]) => seq))
    for (const seq of noted) if (seq < before) seqs.add(seq)
    const inOrder = [...seqs].sort((a, b) => b - a)
    return given(inOrder.slice(0, scanMax), inOrder.length < scanMax ? undefined : inOrder[scanMax - 1])
  }

  /** Reads candidates until the page is full, in items or in bytes. */
  function pageOf(
    candidates: Candidates,
    conditions: readonly Condition[],
    { limit, placeOf, scope }: PageOptions,
  ): RowPage {
    const [where, values] = both(conditions)
    const sql = `SELECT ${columns} FROM ${candidates.sql} c
      CROSS JOIN notifications n ON n.seq = c.seq CROSS JOIN states s ON s.seq = c.seq WHERE ${where}`
    const rows: Row[] = []
    let bytes = 0
    for (const each of prepared(sql).iterate(...candidates.values, ...values)) {
      const row = each as unknown as Row
      if (rows.length === limit || (rows.length > 0 && bytes > pageBytesMax))
        return { rows, nextCursor: cursors.seal(placeOf(rows.at(-1)!), scope) }
      rows.push(row)
      bytes += requestLengthOf(row)
    }
    const { next } = candidates
    return { rows, nextCursor: next === undefined ? null : cursors.seal(next, scope) }
  }

  const placeOfTenant = (row: Row): readonly number[] => [createdAtOf(row), seqOf(row)]
  const placeOfSeq = (row: Row): readonly number[] => [seqOf(row)]

  /** The conditions of all lists on the row itself. */
  const conditionsOf = (query: ListQuery): readonly Condition[] => [
    ['n.tenant = ?', query.tenant],
    query.recipient !== undefined && ['n.recipient = ?', query.recipient],
    query.category !== undefined && ['n.category = ?', query.category],
    query.channel !== undefined && ['n.channel = ?', query.channel],
    query.statuses !== undefined && [
      's.status IN (SELECT value FROM json_each(?))',
      JSON.stringify(query.statuses.map((status) => statusCodes[status])),
    ],
    query.from !== undefined && ['n.created_at >= ?', query.from],
    query.to !== undefined && ['n.created_at < ?', query.to],
    ...conditionsInJson(query),
  ]

  const members = db.prepare(`SELECT n.id, s.status FROM notifications n INDEXED BY by_job
    CROSS JOIN states s USING (seq) WHERE n.job = ? AND n.tenant = ? ORDER BY n.seq`)

  return {
    notification(tenant, id) {
      const sql = `SELECT ${columns} FROM notifications n CROSS JOIN states s USING (seq) WHERE n.id = ? AND n.tenant = ?`
      return prepared(sql).get(id, tenant) as unknown as Row | undefined
    },

    notificationsOf(ids) {
      const byId = prepared(
        `SELECT ${columns} FROM notifications n CROSS JOIN states s USING (seq) WHERE n.id = ?`,
      )
      return ids.map((id) => byId.get(id) as unknown as Row | undefined).filter((row) => row !== undefined)
    },

    list(query, noted) {
      const { tenant, recipient, job, limit } = query
      const byRecipient = recipient !== undefined && job === undefined
      const parts = byRecipient ? 1 : 2
      const after = query.cursor === undefined ? undefined : cursors.open(query.cursor, parts, tenant)
      return pageOf(
        query.ids !== undefined
          ? given(seqsOf(query.ids, 0), undefined)
          : byRecipient
            ? ofRecipient(query, after, noted)
            : ofTenant(query, after),
        conditionsOf(query),
        { limit, placeOf: byRecipient ? placeOfSeq : placeOfTenant, scope: tenant },
      )
    },

    dueAfter({ tenant, cursor }) {
      if (cursor === undefined) return [Number.MIN_SAFE_INTEGER, 0]
      const [dueAt, seq] = cursors.open(cursor, dueParts, tenant)
      return [dueAt!, seq!]
    },

    listDue(query, places) {
      const { tenant, job, ids, limit } = query
      const last = places.length < dueMax ? undefined : places.at(-1)
      const candidates: Candidates = {
        sql: "(SELECT json_extract(value, '$[0]') AS due_at, json_extract(value, '$[1]') AS seq FROM json_each(?))",
        values: [JSON.stringify(places)],
        ...(last === undefined ? {} : { next: placeOfDue(...last) }),
      }
      return pageOf(
        candidates,
        [
          // A row that has moved on meanwhile stands elsewhere in the order.
          [`s.due_at = c.due_at AND s.status IN ${dueCodes}`],
          job !== undefined && ['n.job = ?', job],
          ids !== undefined && ['n.id IN (SELECT value FROM json_each(?))', JSON.stringify(ids)],
          ...conditionsOf(query),
        ],
        { limit, placeOf: (row) => placeOfDue(dueAtOf(row), seqOf(row)), scope: tenant },
      )
    },

    deadLetters(query) {
      const { tenant, ids, limit } = query
      // A cursor of an operator's list over all tenants is valid for a list of one, too: it only continues.
      const scope = ''
      const after = query.cursor === undefined ? [0] : cursors.open(query.cursor, 1, scope)
      const candidates =
        ids === undefined
          ? indexed(
              (what) =>
                `SELECT ${what} FROM states INDEXED BY dead WHERE status = 5 AND seq > ? ORDER BY seq`,
              'seq',
              after,
            )
          : given(seqsOf(ids, after[0]!), undefined)
      return pageOf(
        candidates,
        [
          ['s.status = 5'],
          tenant !== undefined && ['n.tenant = ?', tenant],
          query.channel !== undefined && ['n.channel = ?', query.channel],
          query.cause !== undefined && ['s.cause = ?', query.cause],
          query.causes !== undefined && [
            's.cause IN (SELECT value FROM json_each(?))',
            JSON.stringify(query.causes),
          ],
          query.priority !== undefined && ["json_extract(n.request, '$.priority') = ?", query.priority],
        ],
        { limit, placeOf: placeOfSeq, scope },
      )
    },

    jobMembers: (tenant, id) =>
      members
        .all(id, tenant)
        .map((row) => ({ id: row.id as string, status: statusOf(row.status as number) })),
  }

  function seqsOf(ids: readonly string[], after: number): readonly number[] {
    const sql =
      'SELECT seq FROM notifications WHERE id IN (SELECT value FROM json_each(?)) AND seq > ? ORDER BY seq'
    return (prepared(sql).all(JSON.stringify(ids), after) as unknown as [number][]).map(([seq]) => seq)
  }
}

/** Numbers of a cursor in the order of `sendAt`: one more than in any other, so that none is taken for another. */
const dueParts = 3
const placeOfDue = (dueAt: number, seq: number): readonly number[] => [dueAt, seq, 0]

/** True where the request of each row has to be read. */
const readsRequest = ({ module, priority, template, actor }: ListQuery): boolean =>
  [module, priority, template, actor].some((value) => value !== undefined)

/** Conditions on fields without a column. */
function conditionsInJson(query: ListQuery): readonly Condition[] {
  const { module, priority, template, actor, reason, limitName } = query
  return [
    ...Object.entries({ module, priority, template, actor }).map(
      ([field, value]): Condition =>
        value !== undefined && [`json_extract(n.request, '$.${field}') = ?`, value],
    ),
    limitName !== undefined && ["json_extract(n.decision, '$.limit') = ?", limitName],
    reason !== undefined && [
      "coalesce(json_extract(s.timeline, '$[#-1].reason'), json_extract(n.decision, '$.reason')) = ?",
      reason,
    ],
  ]
}

interface PageOptions {
  readonly limit: number
  readonly placeOf: (row: Row) => readonly number[]
  /** The scope in which its cursors are valid. */
  readonly scope: string
}

/** Joins the given conditions as SQL and its values. */
function both(conditions: readonly Condition[]): readonly [where: string, values: readonly SQLInputValue[]] {
  const given = conditions.filter((condition) => condition !== undefined && condition !== false)
  return [given.map(([sql]) => `(${sql})`).join(' AND '), given.flatMap(([, ...values]) => values)]
}
