/**
 * Counts deliveries from the outcomes on record. A week may have millions of them, and one statement over all would run into
 * its time-out each time: they are read in slices by the instant of the outcome, the oldest first. An outcome is committed
 * shortly after its instant, so a slice that reached up to now could miss some: the newest outcomes, a slice at least, are
 * left to the last statement.
 */
import type { DeliveredCount, DeliveredQuery } from '../../ports/traffic.ts'
import { statusCodes } from '../status-codes.ts'
import type { Db } from './connection.ts'

/**
 * Outcomes that one statement counts, the last one up to twice as many: some 0.2 s of the server, more where they are not in
 * its memory.
 */
const sliceMax = 50_000

/**
 * Counts by `fired_at`, and selects by `at` besides, which has an index: a notification that left since an instant has ended
 * since then, too.
 */
export const deliveredRows = `SELECT n.tenant, n.category, (o.fired_at / $2::bigint)::bigint AS bucket, count(*)::bigint AS count
  FROM outcome o JOIN notification n ON n.id = o.id
  WHERE o.status = ${statusCodes.delivered} AND o.fired_at >= $3 AND o.fired_at < $4 AND o.at >= $5 AND o.at < $6
    AND n.category = ANY ($1)
  GROUP BY 1, 2, 3`

/** The values of `deliveredRows` for outcomes from one instant to another, the latter exclusive. */
export const deliveredValues = (
  { from, to, bucketMs, categories }: DeliveredQuery,
  since: number,
  until: number,
): readonly unknown[] => [categories, bucketMs, from, to, since, until]

interface Counted {
  readonly delivered: readonly DeliveredCount[]
  /** All outcomes before this instant are counted, epoch ms. */
  readonly until: number
}

/** Returns the instant of the outcome that has `count` others before it from `since` on; undefined where there are fewer. */
async function endBehind(db: Db, since: number, count: number): Promise<number | undefined> {
  const text = 'SELECT at FROM outcome WHERE at >= $1 ORDER BY at OFFSET $2 LIMIT 1'
  const [end] = await db.query<{ at: number }>(text, [since, count])
  return end?.at
}

/** Counts all but the last two slices at most, which one statement counts. */
export async function countOlder(db: Db, query: DeliveredQuery): Promise<Counted> {
  const delivered: DeliveredCount[] = []
  for (let since = query.from; ; ) {
    if ((await endBehind(db, since, 2 * sliceMax)) === undefined) return { delivered, until: since }
    const until = Math.max((await endBehind(db, since, sliceMax)) ?? 0, since + 1)
    delivered.push(...(await db.query<DeliveredCount>(deliveredRows, deliveredValues(query, since, until))))
    since = until
  }
}

/** Adds the counts of one bucket up. */
export function sumOf(counts: readonly DeliveredCount[]): readonly DeliveredCount[] {
  const sums = new Map<string, DeliveredCount>()
  for (const each of counts) {
    const key = `${each.bucket}\n${each.tenant}\n${each.category}`
    sums.set(key, { ...each, count: each.count + (sums.get(key)?.count ?? 0) })
  }
  return [...sums.values()]
}

export async function countDelivered(db: Db, query: DeliveredQuery): Promise<readonly DeliveredCount[]> {
  const { delivered, until } = await countOlder(db, query)
  const last = await db.query<DeliveredCount>(
    deliveredRows,
    deliveredValues(query, until, Number.MAX_SAFE_INTEGER),
  )
  return sumOf([...delivered, ...last])
}
