/**
 * Counts what waits, and the dead letters, on record. The server counts by cell and instant from narrow rows (column
 * `waits`), so that of many who wait neither their JSON is read nor a row each is sent. Dead letters have no such value:
 * their JSON is read.
 */
import {
  type BacklogCoarseness,
  type BacklogRow,
  type BacklogSource,
  backlogRowOf,
} from '../../backlog-cell.ts'
import type { Notification } from '../../model.ts'
import type { Db } from './connection.ts'

/** The fields of a cell that have no column of their own, in the order in which `waits` has them. */
const waitsFields = ['category', 'reason', 'limit', 'provider', 'account'] as const
type WaitsFor = Pick<BacklogRow, (typeof waitsFields)[number]>

/** The column `waits` of a notification; undefined for one that does not wait. */
export function waitsOf(notification: Notification): string | undefined {
  const row = backlogRowOf(notification)
  if (row === undefined || row.kind === 'dead') return undefined
  const values = waitsFields.map((field) => row[field])
  return JSON.stringify(values.slice(0, values.findLastIndex((value) => value !== undefined) + 1))
}

function readWaits(waits: string): WaitsFor {
  const values = JSON.parse(waits) as readonly (string | null)[]
  const entries = values.map((value, index) => [waitsFields[index]!, value] as const)
  return Object.fromEntries(entries.filter(([, value]) => value !== null)) as unknown as WaitsFor
}

/** Rows that are counted by one statement: some 0.2 s of the server, where each is of another cell and second. */
const countedMax = 100_000
/** Rows whose JSON is read by one statement: some 50 ms of the server. */
const readMax = 5_000

interface Counted {
  /** Null for dead letters, whose JSON says it. */
  readonly waits: string | null
  readonly tenant: string
  readonly channel: BacklogRow['channel']
  readonly kind: 'waiting' | 'queued'
  readonly count: number
  readonly first: number
  readonly last: number
  /** The greatest id. */
  readonly id: string
}

/** Seconds are rounded up (backlog-cell.ts); a span begins at a whole minute or hour. */
const countPage = `SELECT waits, tenant, channel, kind, count(*)::bigint AS count, min(second) AS first, max(second) AS last, max(id) AS id
  FROM (SELECT id, waits, tenant, channel, CASE WHEN status > 2 THEN 'queued' ELSE 'waiting' END AS kind,
      (due_at + 999 * (due_at > 0)::int) / 1000 AS second FROM live WHERE id > $1 ORDER BY id LIMIT $2) l
  GROUP BY waits, tenant, channel, kind, CASE WHEN waits IS NULL THEN 0 WHEN second BETWEEN $3 AND $4 THEN second
    WHEN second BETWEEN $4 AND $5 THEN second - second % 60 ELSE second - second % 3600 END`

/** The dead letters of such a page, with the newest event of each timeline only. */
const readPage = `SELECT l.id, json_strip_nulls(json_build_object('id', l.id, 'tenant', l.tenant, 'channel', l.channel,
    'category', n.category, 'dueAt', l.due_at, 'decision',
    json_build_object('reason', s.state->'decision'->'reason', 'limit', s.state->'decision'->'limit'),
    'timeline', json_build_array(s.state->'timeline'->-1),
    'status', (ARRAY['accepted','scheduled','digesting','queued','sending','dead'])[l.status + 1])) AS n
  FROM (SELECT * FROM live WHERE id > $1 AND id <= $2 AND waits IS NULL ORDER BY id LIMIT $3) l
  CROSS JOIN LATERAL (SELECT category, first FROM notification WHERE id = l.id OFFSET 0) n
  CROSS JOIN LATERAL (SELECT coalesce(l.state, n.first) AS state) s ORDER BY l.id`

export function createBacklogReads(db: Db): BacklogSource {
  return {
    async backlog({ secondsFrom, secondsUntil, minutesUntil }: BacklogCoarseness = exact) {
      const spans = [secondsFrom, secondsUntil, minutesUntil]
      const rows = new Map<string, BacklogRow>()
      const waitsFor = new Map<string, WaitsFor>()

      function add(key: string, row: BacklogRow): void {
        if (row.count === 0) return
        const known = rows.get(key)
        rows.set(key, known === undefined ? row : { ...row, count: known.count + row.count })
      }

      function addCounted({ waits, tenant, channel, kind, count, first, last, id: example }: Counted): void {
        const cell = waitsFor.get(waits!) ?? readWaits(waits!)
        waitsFor.set(waits!, cell)
        const row = { tenant, channel, kind, ...cell, example }
        const key = `${waits}\n${tenant}\n${channel}\n${kind}\n`
        // The first and the last second of several stay exact.
        add(key + last, { ...row, second: last, count: first === last ? count : count - 1 })
        add(key + first, { ...row, second: first, count: first === last ? 0 : 1 })
      }

      async function readRest(from: string, to: string): Promise<void> {
        for (let after = from, isMore = true; isMore; ) {
          const found = await db.query<{ id: string; n: Notification }>(readPage, [after, to, readMax])
          for (const { n } of found) {
            const row = backlogRowOf(n)
            if (row === undefined) continue
            const { example: _, detail: _detail, ...cell } = row
            add(JSON.stringify(cell), { ...row, count: 1 })
          }
          isMore = found.length === readMax
          after = found.at(-1)?.id ?? after
        }
      }

      for (let after = '', isMore = true; isMore; ) {
        const page = await db.query<Counted>(countPage, [after, countedMax, ...spans])
        for (const counted of page) if (counted.waits !== null) addCounted(counted)
        const last = page.reduce((id, counted) => (counted.id > id ? counted.id : id), after)
        if (page.some(({ waits }) => waits === null)) await readRest(after, last)
        isMore = page.reduce((sum, { count }) => sum + count, 0) === countedMax
        after = last
      }
      return [...rows.values()]
    },
  }
}

const exact: BacklogCoarseness = {
  secondsFrom: Number.MIN_SAFE_INTEGER,
  secondsUntil: Number.MAX_SAFE_INTEGER,
  minutesUntil: Number.MAX_SAFE_INTEGER,
}
