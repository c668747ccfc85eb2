/** The questions of people: one notification, a page of them, dead letters, what waits for somebody. */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { SluiceError } from '../../../errors.ts'
import type { DeadLetterQuery, ListQuery } from '../../../ports.ts'
import { statusCodes } from './codes.ts'
import type { Register } from './register.ts'
import { rowsOf } from './register.ts'
import type { Row } from './rows.ts'
import { columns, createdAtOf, seqOf } from './rows.ts'

export interface RowPage {
  readonly rows: readonly Row[]
  readonly nextCursor: string | null
}

export interface Listing {
  notification(tenant: string, id: string): Row | undefined
  list(query: ListQuery): RowPage
  deadLetters(query: DeadLetterQuery): RowPage
  waiting(tenant: string, recipient: string): readonly Row[]
}

/** Tables, and what is bound in them. */
type Source = readonly [sql: string, ...values: SQLInputValue[]]
type Condition = readonly [sql: string, ...values: SQLInputValue[]] | undefined | false

export function prepareListing(db: DatabaseSync, register: Register): Listing {
  // One statement a combination of filters: at most a few dozen.
  const statements = new Map<string, StatementSync>()
  function all(sql: string, values: readonly SQLInputValue[]): readonly Row[] {
    let statement = statements.get(sql)
    if (statement === undefined) {
      statement = db.prepare(sql)
      statement.setReturnArrays(true)
      statements.set(sql, statement)
    }
    return statement.all(...values) as unknown as readonly Row[]
  }

  function select(
    from: Source | undefined,
    conditions: readonly Condition[],
    order: string,
    limit: number,
  ): readonly Row[] {
    if (from === undefined) return []
    const given = conditions.filter((condition) => condition !== undefined && condition !== false)
    const where = given.map(([sql]) => `(${sql})`).join(' AND ')
    const [tables, ...bound] = from
    const values = [...bound, ...given.flatMap(([, ...of]) => of), limit]
    return all(`SELECT ${columns} FROM ${tables} WHERE ${where} ORDER BY ${order} LIMIT ?`, values)
  }

  // CROSS JOIN fixes the order in which SQLite goes: from the few rows that an index names to the others.
  const byNotification: Source = ['notifications n CROSS JOIN states s USING (seq)']
  const byState: Source = ['states s CROSS JOIN notifications n USING (seq)']
  const byRecipient = (tenant: string, recipient: string): Source | undefined => {
    const found = register.lookup(tenant, recipient)
    if (found === undefined) return undefined
    return [`${rowsOf} r CROSS JOIN notifications n USING (seq) CROSS JOIN states s USING (seq)`, ...found]
  }
  const byJob: Source = ['notifications n INDEXED BY by_job CROSS JOIN states s USING (seq)']
  const noLimit = -1

  /** The smallest part of the record in which all of them stand. */
  function sourceOf({ tenant, recipient, job }: ListQuery): Source | undefined {
    if (job !== undefined) return byJob
    return recipient === undefined ? byNotification : byRecipient(tenant, recipient)
  }

  return {
    notification(tenant, id) {
      const [row] = select(byNotification, [['n.id = ? AND n.tenant = ?', id, tenant]], 'n.seq', 1)
      return row
    },

    list(query) {
      const after = readCursor(query.cursor, 2)
      const rows = select(
        sourceOf(query),
        [
          query.job !== undefined && ['n.job = ?', query.job],
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
          after && ['n.created_at <= ? AND (n.created_at < ? OR n.seq < ?)', after[0]!, after[0]!, after[1]!],
        ],
        'n.created_at DESC, n.seq DESC',
        query.limit + 1,
      )
      return page(rows, query.limit, (row) => [createdAtOf(row), seqOf(row)])
    },

    deadLetters(query) {
      const after = readCursor(query.cursor, 1)
      const rows = select(
        byState,
        [
          ['s.status = 5'],
          query.tenant !== undefined && ['n.tenant = ?', query.tenant],
          query.channel !== undefined && ['n.channel = ?', query.channel],
          query.cause !== undefined && ['s.cause = ?', query.cause],
          query.causes !== undefined && [
            's.cause IN (SELECT value FROM json_each(?))',
            JSON.stringify(query.causes),
          ],
          query.priority !== undefined && ["json_extract(n.request, '$.priority') = ?", query.priority],
          query.ids !== undefined && ['n.id IN (SELECT value FROM json_each(?))', JSON.stringify(query.ids)],
          after && ['s.seq > ?', after[0]!],
        ],
        's.seq',
        query.limit + 1,
      )
      return page(rows, query.limit, (row) => [seqOf(row)])
    },

    waiting(tenant, recipient) {
      return select(
        byRecipient(tenant, recipient),
        [['n.tenant = ? AND n.recipient = ? AND s.status IN (1, 2, 3)', tenant, recipient]],
        'n.seq',
        noLimit,
      )
    },
  }
}

function page(rows: readonly Row[], limit: number, placeOf: (row: Row) => readonly number[]): RowPage {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  const more = rows.length > limit && last !== undefined
  return {
    rows: shown,
    nextCursor: more ? cursorOf(placeOf(last)) : null,
  }
}

export const cursorOf = (place: readonly number[]): string =>
  Buffer.from(place.join('.')).toString('base64url')

export function readCursor(cursor: string | undefined, parts: number): readonly number[] | undefined {
  if (cursor === undefined) return undefined
  const numbers = Buffer.from(cursor, 'base64url').toString().split('.').map(Number)
  // Written anew it must be the same: what Node reads past, such as a letter too much, is a cursor that was broken.
  if (numbers.length !== parts || !numbers.every(Number.isSafeInteger) || cursorOf(numbers) !== cursor) {
    throw new SluiceError('INVALID_REQUEST', 'The cursor is not one that a list has answered.', {
      errors: [{ path: '/cursor', message: 'must be the nextCursor of an earlier answer' }],
    })
  }
  return numbers
}
