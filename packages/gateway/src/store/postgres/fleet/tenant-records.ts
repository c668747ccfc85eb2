/**
 * Reads from PostgreSQL what the limits of tenants and their room are filled from when the state that holds them is lost:
 * the next generation first, then the record. Changes of an earlier generation are on record by then, or are refused
 * (`commit_group`), so that the record may be read page by page: of a window with very many, one statement over all would end
 * in its time-out each time.
 */
import { boundOf } from '../../../bounds.ts'
import type { TenantRecords } from '../../../ports/tenants.ts'
import type { TenantGeneration } from '../../../ports.ts'
import { statusOf } from '../../status-codes.ts'
import type { Db } from '../connection.ts'
import { isJobKind } from '../job-reads.ts'
import { turnedSince } from '../turned.ts'

interface EntryRow {
  readonly id: string
  readonly seq: number
  readonly module: string
  readonly is_critical: boolean
  /** Null where it ended before its pass. */
  readonly at: number | null
  readonly waits: boolean
  readonly due_at: number | null
}

interface Accepted {
  readonly id: string
  readonly created_at: number
}

/** Notifications whose JSON one statement reads: some 0.4 s of the server. */
const readMax = 10_000

/**
 * An acceptance counts at its pass, or waits: `kind` 3. Items of a digest were counted when they were accepted, so
 * the notification that it became, which has actors, is left out.
 */
const entriesOf = `SELECT n.id, n.seq, n.body->>'module' AS module, n.body->>'priority' = 'critical' AS is_critical,
    l.kind IS NOT DISTINCT FROM 3::smallint AS waits, l.due_at,
    CASE WHEN l.kind = 3 THEN coalesce((coalesce(l.state, n.first)->'decision'->>'at')::double precision, l.due_at)
      WHEN n.first->'timeline'->1->>'reason' IN ('tenant_limit', 'module_limit', 'state_unavailable') THEN coalesce(l.turned_at, o.turned_at)
      ELSE coalesce(l.turned_at, o.turned_at, n.created_at) END AS at
  FROM unnest($1::text[]) named(id)
    CROSS JOIN LATERAL (SELECT * FROM notification WHERE notification.id = named.id) n
    LEFT JOIN live l ON l.id = named.id LEFT JOIN outcome o ON o.id = named.id
  WHERE n.body->'actors' IS NULL`

export function createTenantRecords(db: Db): TenantRecords {
  /**
   * The ids of all that may count or wait, each once. One that moves on between two statements is found by the later: they
   * read those that wait, those that had their turn, and those that were accepted, in this order.
   */
  async function namesOf(tenant: string, since: number): Promise<readonly string[]> {
    // The bounds of the tenant limit how many there are.
    const waiting = await db.query<{ id: string }>('SELECT id FROM live WHERE tenant = $1 AND kind = 3', [
      tenant,
    ])
    const names = new Set(waiting.map(({ id }) => id))
    for await (const page of turnedSince(db, tenant, since)) for (const id of page) names.add(id)
    let [at, id] = [since, '']
    for (let isMore = true; isMore; ) {
      const page: readonly Accepted[] = await db.query<Accepted>(
        `SELECT id, created_at FROM notification WHERE tenant = $1 AND (created_at, id) > ($2, $3)
          ORDER BY created_at, id LIMIT $4`,
        [tenant, at, id, readMax],
      )
      for (const each of page) names.add(each.id)
      isMore = page.length === readMax
      if (isMore) [at, id] = [page.at(-1)!.created_at, page.at(-1)!.id]
    }
    return [...names]
  }

  const nextGeneration = async (tenant: string, state: TenantGeneration['state']): Promise<number> => {
    const [row] = await db.query<{ number: number }>('SELECT next_generation($1, $2) AS number', [
      tenant,
      state,
    ])
    return row!.number
  }

  return {
    nextThrottleGeneration: (tenant) => nextGeneration(tenant, 'throttle'),
    nextRoomGeneration: (tenant) => nextGeneration(tenant, 'room'),
    async generations(tenant) {
      const rows = await db.query<TenantGeneration>(
        'SELECT state, number FROM generation WHERE tenant = $1',
        [tenant],
      )
      const numberOf = (wanted: string) => rows.find(({ state }) => state === wanted)?.number ?? 0
      return { throttle: numberOf('throttle'), room: numberOf('room') }
    },
    async entries(tenant, since) {
      const names = await namesOf(tenant, since)
      const rows: EntryRow[] = []
      for (let from = 0; from < names.length; from += readMax) {
        const page = names.slice(from, from + readMax)
        for (const row of await db.query<EntryRow>(entriesOf, [page])) rows.push(row)
      }
      rows.sort((a, b) => a.seq - b.seq)
      const waiting = rows.filter(({ waits }) => waits)
      const counted = rows.filter(({ waits, at }) => !waits && at !== null && at >= since)
      return {
        counted: counted.map(({ module, at, is_critical }) => ({ module, at: at!, isCritical: is_critical })),
        waiting: waiting.map(({ id, module, at, due_at }) => ({ id, module, at: at!, dueAt: due_at! })),
      }
    },
    async waitingTenants() {
      // By the counts: of those that wait there may be millions.
      const rows = await db.query<{ tenant: string }>(
        'SELECT tenant FROM tally WHERE kind = 3 GROUP BY tenant HAVING sum(count) > 0',
      )
      return rows.map(({ tenant }) => tenant)
    },
    async tallies(tenant) {
      const rows = await db.query<{ member: string; kind: number; count: number; bytes: number }>(
        'SELECT member::text AS member, kind, count, bytes FROM tally WHERE tenant = $1',
        [tenant],
      )
      const uses = new Map<string, { member: string; queue: number; waiting: number; bytes: number }>()
      for (const { member, kind, count, bytes } of rows) {
        const bound = boundOfKind(kind)
        if (bound === undefined) continue
        const use = uses.get(member) ?? { member, queue: 0, waiting: 0, bytes: 0 }
        use[bound] += count
        use.bytes += bytes
        uses.set(member, use)
      }
      return [...uses.values()]
    },
  }
}

/** The bound in which the notifications of a tally count: `kind` is 2 × status, + 1 for those counted apart. */
function boundOfKind(kind: number): 'queue' | 'waiting' | undefined {
  if (isJobKind(kind)) return 'queue'
  const status = statusOf(kind >> 1)
  const isApart = kind % 2 === 1
  // A dead letter that no pool serves counts in no bound.
  if (status === 'dead' && isApart) return undefined
  return boundOf(status, isApart ? 'tenant_limit' : undefined)
}
