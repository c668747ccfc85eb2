/** Counts the delivered notifications of the store in memory. */
import type { Notification } from '../../model.ts'
import type { FeedbackEvent, FeedbackRecord } from '../../ports/feedback.ts'
import type { DeliveredCount, DeliveredQuery, DeliveryTotal, DeliveryTotals } from '../../ports/traffic.ts'

export function deliveredIn(
  tenants: ReadonlyMap<string, ReadonlyMap<string, Notification>>,
  { from, to, bucketMs, categories }: DeliveredQuery,
): readonly DeliveredCount[] {
  const counts = new Map<string, DeliveredCount>()
  for (const rows of tenants.values())
    for (const { tenant, category, status, firedAt = Number.NaN } of rows.values()) {
      if (status !== 'delivered' || !(firedAt >= from && firedAt < to) || !categories.includes(category))
        continue
      const bucket = Math.floor(firedAt / bucketMs)
      const key = JSON.stringify([tenant, category, bucket])
      counts.set(key, { tenant, category, bucket, count: (counts.get(key)?.count ?? 0) + 1 })
    }
  return [...counts.values()]
}

const always = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY }

/** Counts anew with each question: what retention has removed is missing, so a total may fall. */
export function createMemoryTotals(
  tenants: ReadonlyMap<string, ReadonlyMap<string, Notification>>,
  record: Pick<FeedbackRecord, 'complaints'>,
): DeliveryTotals {
  const complained = async () =>
    (await record.complaints({ ...always, limit: Number.POSITIVE_INFINITY })).items

  function totalsOf(
    complaints: readonly FeedbackEvent[],
    categories: readonly string[],
  ): readonly DeliveryTotal[] {
    const found = new Map<
      string,
      { tenant: string; category: string; delivered: number; complained: number }
    >()
    const of = (tenant: string, category: string) => {
      const key = JSON.stringify([tenant, category])
      const total = found.get(key) ?? { tenant, category, delivered: 0, complained: 0 }
      found.set(key, total)
      return total
    }
    for (const { tenant, category } of complaints)
      if (categories.includes(category)) of(tenant, category).complained += 1
    const query = { ...always, bucketMs: Number.POSITIVE_INFINITY, categories }
    for (const { tenant, category, count } of deliveredIn(tenants, query))
      of(tenant, category).delivered += count
    return [...found.values()]
  }

  return {
    read: async (categories) => totalsOf(await complained(), categories),
    async readWith(query) {
      const complaints = await complained()
      return {
        totals: totalsOf(complaints, query.categories),
        delivered: deliveredIn(tenants, { ...query, to: always.to }),
      }
    },
  }
}

const undelivered: ReadonlySet<Notification['status']> = new Set(['cancelled', 'expired', 'suppressed'])

/** Finds the notifications that ended so since an instant, the newest ends first. */
export function endedSince(
  tenants: ReadonlyMap<string, ReadonlyMap<string, Notification>>,
  at: number,
  limit: number,
): readonly Notification[] {
  const endOf = ({ timeline }: Notification): number => timeline.at(-1)!.at
  const ended = [...tenants.values()].flatMap((rows) =>
    [...rows.values()].filter((row) => undelivered.has(row.status) && endOf(row) >= at),
  )
  return ended.sort((a, b) => endOf(b) - endOf(a)).slice(0, limit)
}
