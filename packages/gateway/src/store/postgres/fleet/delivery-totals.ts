/** Reads the totals of deliveries and complaints that all processes of a record write together. */
import type { DeliveredCount, DeliveryTotal, DeliveryTotals } from '../../../ports/traffic.ts'
import { statusCodes } from '../../status-codes.ts'
import type { Db } from '../connection.ts'

const totals = `SELECT tenant, category, sum(delivered)::bigint AS delivered, sum(complained)::bigint AS complained
  FROM delivery_total WHERE category = ANY ($1) GROUP BY tenant, category`

/** A notification that left since an instant has ended since then too, and that column has an index. */
const delivered = `SELECT n.tenant, n.category, (o.fired_at / $2::bigint)::bigint AS bucket, count(*)::bigint AS count
  FROM outcome o JOIN notification n ON n.id = o.id
  WHERE o.status = ${statusCodes.delivered} AND o.fired_at >= $3 AND o.at >= $3 AND n.category = ANY ($1)
  GROUP BY 1, 2, 3`

const rowsOf = (query: string): string => `coalesce((SELECT json_agg(r) FROM (${query}) r), '[]')`

export function createDeliveryTotals(db: Db): DeliveryTotals {
  return {
    read: (categories) => db.query(totals, [categories]),
    // One statement has one snapshot.
    async readWith({ from, bucketMs, categories }) {
      const [row] = await db.query<{
        delivered: readonly DeliveredCount[]
        totals: readonly DeliveryTotal[]
      }>(`SELECT ${rowsOf(delivered)} AS delivered, ${rowsOf(totals)} AS totals`, [
        categories,
        bucketMs,
        from,
      ])
      return row!
    },
  }
}
