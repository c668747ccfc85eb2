/**
 * Reads the facts from which limiter state is rebuilt. A recipient's limits count notifications that were sent, may
 * have been sent, or hold an instant; a tenant's limits count every accepted notification once it has passed them. What
 * an erased recipient got counts under the pseudonym, and is answered under the recipient's own name.
 */
import type { Admission, AdmissionQuery, CountedQuery, Page } from '../../ports.ts'
import { admissionOf } from '../admission.ts'
import { type ReadRow, type WholeRow, wholeOf } from './codec.ts'
import type { Db } from './connection.ts'
import { gatherReads } from './gathered-reads.ts'
import type { PseudonymOf } from './pseudonyms.ts'
import { turnedSince } from './turned.ts'

export interface Admissions {
  admissions(query: AdmissionQuery): Promise<readonly Admission[]>
  counted(query: CountedQuery): Promise<Page<Admission>>
  inThrottleQueue(query: { readonly after?: string; readonly limit: number }): Promise<readonly Admission[]>
}

/** Admissions of a recipient that are read with those of others; where there are more, its pages are read alone. */
const togetherMax = 20

/** Statuses 7, 9 and 10: suppressed, failed, cancelled. Nothing came of these, unless a call may have been made. */
const mayHaveCome = '(fired_at IS NOT NULL OR suspect_at IS NOT NULL OR status NOT IN (7, 9, 10))'
const since = (parameter: string): string =>
  `(created_at >= ${parameter} OR fired_at >= ${parameter} OR suspect_at >= ${parameter}`

const countsSince = (parameter: string): string =>
  `${since(parameter)} OR status IN (1, 2, 3, 4) OR status = 5 AND due_at >= ${parameter})`

/**
 * The ids among $1 that have not ended, or left at $2 or later. Most of a tenant's rows are neither, and to read each of
 * them whole took three times as long (23 µs a row in place of 8).
 */
const waitingOrLeft = `ARRAY(SELECT e.id FROM unnest($1::text[]) e(id)
  LEFT JOIN LATERAL (SELECT true AS is_there FROM live WHERE live.id = e.id OFFSET 0) l ON true
  LEFT JOIN LATERAL (SELECT fired_at, suspects FROM outcome WHERE outcome.id = e.id OFFSET 0) o ON true
  WHERE l.is_there OR o.fired_at >= $2 OR o.suspects[cardinality(o.suspects)] >= $2)`

const acceptedSince = '(created_at >= $2 OR turned_at >= $2)'
const waits = 'status IN (1, 2, 3, 4)'

/** Selects what limits of several recipients count: all, or what is near the present and the first that is due later. */
const countsOf = (within: CountedQuery['within']): string =>
  within === undefined
    ? `(fired_at >= $2 OR suspect_at >= $2 OR ${waits})`
    : `(fired_at >= $2 OR suspect_at >= $2 OR ${waits} AND due_at <= $3
        OR id = (SELECT id FROM ${wholeOf(waitingOrLeft)} WHERE ${waits} AND due_at > $3 ORDER BY created_at, id LIMIT 1))`

/** A prepared statement fails for ever once its result has another column, as a newer version's schema may give it. */
const wholeColumns = Object.keys({
  id: true,
  seq: true,
  tenant: true,
  recipient: true,
  created_at: true,
  body: true,
  channel: true,
  status: true,
  due_at: true,
  attempts: true,
  fired_at: true,
  turned_at: true,
  suspects: true,
  state: true,
  owner: true,
  begun_at: true,
} satisfies Record<keyof WholeRow, true>).join()

type RecipientQuery = CountedQuery & { readonly recipient: string }

export function createAdmissions(db: Db, pseudonymOf: PseudonymOf, read: ReadRow): Admissions {
  const admissionOfRow = (row: WholeRow): Admission => admissionOf(read(row))
  const named = (row: WholeRow, recipient: string | undefined): Admission => {
    const admission = admissionOfRow(row)
    return recipient === undefined || admission.to.id === recipient
      ? admission
      : { ...admission, to: { ...admission.to, id: recipient } }
  }
  const namesOf = (tenant: string, recipient: string): readonly string[] => [
    recipient,
    pseudonymOf(tenant, recipient),
  ]

  async function countedOfTenant({
    tenant,
    since: from,
    accepted,
    within,
    cursor,
    limit,
  }: CountedQuery): Promise<Page<Admission>> {
    // One that left since, or waits, may have been accepted at any time: its `sendAt`, a hold or a redrive may lie far behind.
    let at = accepted === true ? from : 0
    let after = ''
    if (cursor !== undefined) {
      const space = cursor.indexOf(' ')
      at = Number(cursor.slice(0, space))
      after = cursor.slice(space + 1)
    } else if (accepted === true) {
      for await (const ids of turnedSince(db, tenant, from)) {
        const [first] = await db.query<{ at: number | null }>(
          `SELECT min(n.created_at) AS at FROM unnest($1::text[]) k(key)
            CROSS JOIN LATERAL (SELECT created_at FROM notification WHERE id = k.key OFFSET 0) n`,
          [ids],
        )
        at = Math.min(at, first!.at ?? at)
      }
    }
    const entries = await db.query<{ id: string; created_at: number }>(
      `SELECT id, created_at FROM notification WHERE tenant = $1 AND (created_at, id) > ($2, $3)
        ORDER BY created_at, id LIMIT $4`,
      [tenant, at, after, limit + 1],
    )
    const shown = entries.slice(0, limit)
    const examined = shown.map(({ id }) => id)
    const [kept, counts] = accepted === true ? ['$1', acceptedSince] : [waitingOrLeft, countsOf(within)]
    const rows = await db.query<WholeRow>(
      `SELECT w.* FROM ${wholeOf(kept)} WHERE ${counts} ORDER BY created_at, id`,
      within === undefined ? [examined, from] : [examined, within.from, within.to],
    )
    const last = shown.at(-1)
    return {
      items: rows.map(admissionOfRow),
      nextCursor: entries.length > limit ? `${last!.created_at} ${last!.id}` : null,
    }
  }

  async function countedOfRecipient(
    { tenant, since: from, cursor = '0', limit }: CountedQuery,
    recipient: string,
  ): Promise<Page<Admission>> {
    const entries = await db.query<{ id: string; seq: number }>(
      `SELECT id, seq FROM notification WHERE tenant = $1 AND recipient = ANY($2) AND seq > $3
        ORDER BY seq LIMIT $4`,
      [tenant, namesOf(tenant, recipient), Number(cursor), limit + 1],
    )
    const shown = entries.slice(0, limit)
    const rows = await db.query<WholeRow>(
      `SELECT w.* FROM ${wholeOf('$1')} WHERE ${mayHaveCome} AND ${countsSince('$2')} ORDER BY seq`,
      [shown.map(({ id }) => id), from],
    )
    return {
      items: rows.map((row) => named(row, recipient)),
      nextCursor: entries.length > limit ? String(shown.at(-1)!.seq) : null,
    }
  }

  /** Reads the admissions of a recipient together with others who are asked for now; undefined where it has many. */
  const fewOf = gatherReads<RecipientQuery, readonly Admission[] | undefined>({
    async read(queries) {
      const asked = queries.flatMap(({ tenant, recipient }, n) =>
        namesOf(tenant, recipient).map((name) => [n, tenant, name] as const),
      )
      const entries = await db.query<{ n: number; id: string }>(
        `SELECT k.n, e.id FROM unnest($1::int[], $2::text[], $3::text[]) k(n, tenant, recipient)
          CROSS JOIN LATERAL (SELECT id FROM notification
            WHERE tenant = k.tenant AND recipient = k.recipient LIMIT $4) e`,
        [
          asked.map(([n]) => n),
          asked.map(([, tenant]) => tenant),
          asked.map(([, , name]) => name),
          togetherMax + 1,
        ],
        { name: 'admissions of recipients' },
      )
      const idsOf = Map.groupBy(entries, ({ n }) => n)
      const few = entries.filter(({ n }) => idsOf.get(n)!.length <= togetherMax)
      const rows =
        few.length === 0
          ? []
          : await db.query<WholeRow>(
              `SELECT ${wholeColumns} FROM ${wholeOf('$1')}
                WHERE ${mayHaveCome} AND ${countsSince('$2')} ORDER BY seq`,
              // Questions of one turn differ by milliseconds, and a row too many counts in no window.
              [[...new Set(few.map(({ id }) => id))], Math.min(...queries.map(({ since }) => since))],
              { name: 'counted of recipients' },
            )
      const askersOf = Map.groupBy(few, ({ id }) => id)
      const rowsOf = queries.map((): WholeRow[] => [])
      // Several questions may be about one recipient, and each gets all of its rows.
      for (const row of rows) for (const { n } of askersOf.get(row.id)!) rowsOf[n]!.push(row)
      return queries.map(({ recipient }, n) =>
        (idsOf.get(n)?.length ?? 0) > togetherMax
          ? undefined
          : rowsOf[n]!.map((row) => named(row, recipient)),
      )
    },
  })

  return {
    async admissions({ tenant, recipient, since: from, limit }) {
      const order = 'ORDER BY coalesce(fired_at, suspect_at, due_at) DESC, id DESC LIMIT $3'
      if (recipient === undefined) {
        const rows = await db.query<WholeRow>(
          `SELECT * FROM whole WHERE id IN (
              SELECT id FROM notification WHERE tenant = $1 AND created_at >= $2
              UNION SELECT id FROM live WHERE tenant = $1 AND turned_at >= $2
              UNION SELECT id FROM outcome WHERE tenant = $1 AND turned_at >= $2) ${order}`,
          [tenant, from, limit],
        )
        return rows.map(admissionOfRow)
      }
      const rows = await db.query<WholeRow>(
        `SELECT * FROM whole WHERE tenant = $1 AND recipient = ANY($4) AND ${mayHaveCome}
          AND ${since('$2')} OR status IN (1, 3, 5) AND due_at >= $2) ${order}`,
        [tenant, from, limit, namesOf(tenant, recipient)],
      )
      return rows.map((row) => named(row, recipient))
    },

    async counted(query) {
      if (query.recipient === undefined) return countedOfTenant(query)
      if (query.cursor === undefined && query.limit > togetherMax) {
        const items = await fewOf({ ...query, recipient: query.recipient })
        if (items !== undefined) return { items, nextCursor: null }
      }
      return countedOfRecipient(query, query.recipient)
    },

    async inThrottleQueue({ after = '', limit }) {
      const rows = await db.query<WholeRow>(
        `SELECT w.* FROM (SELECT id FROM live WHERE kind = 3 AND id > $1 ORDER BY id LIMIT $2) l
          JOIN whole w USING (id) ORDER BY id`,
        [after, limit],
      )
      return rows.map(admissionOfRow)
    },
  }
}
