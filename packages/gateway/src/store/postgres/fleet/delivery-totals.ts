/** Reads the totals of deliveries and complaints that all processes of a record write together. */
import type { DeliveredCount, DeliveryTotal, DeliveryTotals } from '../../../ports/traffic.ts'
import type { Db } from '../connection.ts'
import { countOlder, deliveredRows, deliveredValues, sumOf } from '../delivered.ts'

const totals = `SELECT tenant, category, sum(delivered)::bigint AS delivered, sum(complained)::bigint AS complained
  FROM delivery_total WHERE category = ANY ($1) GROUP BY tenant, category`

const rowsOf = (query: string): string => `coalesce((SELECT json_agg(r) FROM (${query}) r), '[]')`

export function createDeliveryTotals(db: Db): DeliveryTotals {
  return {
    read: (categories) => db.query(totals, [categories]),
    async readWith(since) {
      const query = { ...since, to: Number.MAX_SAFE_INTEGER }
      const { delivered, until } = await countOlder(db, query)
      // One statement has one snapshot: what ends now is in both, or in neither.
      const [row] = await db.query<{
        delivered: readonly DeliveredCount[]
        totals: readonly DeliveryTotal[]
      }>(
        `SELECT ${rowsOf(deliveredRows)} AS delivered, ${rowsOf(totals)} AS totals`,
        deliveredValues(query, until, Number.MAX_SAFE_INTEGER),
      )
      return { delivered: sumOf([...delivered, ...row!.delivered]), totals: row!.totals }
    },
  }
}
