/**
 * Reads what the complaint guard needs from the record: what was delivered and complained about, and who waits in the line
 * of a category.
 */
import { waitingReason } from '../backlog-cell.ts'
import type { Notification } from '../model.ts'
import type { ComplaintRules } from '../policy/complaint-guard.ts'
import type { FeedbackRecord } from '../ports/feedback.ts'
import type { DeliveredCount } from '../ports/traffic.ts'
import type { Store } from '../ports.ts'
import { bucketMsOf } from './complaint-counts.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** Rows that are looked at in one go. */
const scanMax = 500
const complaintsMax = 1_000

/** Events of a tenant's category that count at an instant. */
export interface CountedEvents {
  readonly tenant: string
  readonly category: string
  readonly at: number
  readonly count: number
}

export interface RecordedCounts {
  readonly delivered: readonly CountedEvents[]
  /** Departures in the hour before, by minute. */
  readonly departed: readonly CountedEvents[]
  readonly complained: readonly CountedEvents[]
}

/** The beginning of the oldest bucket of the window that ends at an instant. */
export function windowStart({ windowMs }: Pick<ComplaintRules, 'windowMs'>, to: number): number {
  const bucketMs = bucketMsOf(windowMs)
  return Math.floor((to - windowMs) / bucketMs) * bucketMs
}

/** Reads what left in the hour before an instant, by minute. */
export async function departures(
  store: Pick<Store, 'delivered'>,
  categories: readonly string[],
  to: number,
): Promise<readonly CountedEvents[]> {
  return startsOf(await store.delivered({ from: to - hourMs, to, bucketMs: minuteMs, categories }), minuteMs)
}

/** Reads what left, and which complaints were recorded, in the window before an instant. */
export async function readCounts(
  store: Pick<Store, 'delivered'>,
  record: Pick<FeedbackRecord, 'complaints'>,
  rules: ComplaintRules,
  to: number,
): Promise<RecordedCounts> {
  const { windowMs, categories } = rules
  const bucketMs = bucketMsOf(windowMs)
  const from = windowStart(rules, to)
  const delivered = await store.delivered({ from, to, bucketMs, categories })
  const departed = await departures(store, categories, to)
  const complained: CountedEvents[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = { from, to: Number.MAX_SAFE_INTEGER, limit: complaintsMax }
    const page = await record.complaints(cursor === undefined ? query : { ...query, cursor })
    for (const { tenant, category, at, keptAt } of page.items)
      if (keptAt < to && categories.includes(category))
        complained.push({ tenant, category, at: Math.min(at, keptAt), count: 1 })
    cursor = page.nextCursor
  }
  return { delivered: startsOf(delivered, bucketMs), departed, complained }
}

/** Counts by bucket as events at the beginnings of their buckets. */
export const startsOf = (rows: readonly DeliveredCount[], bucketMs: number): readonly CountedEvents[] =>
  rows.map(({ bucket, ...row }) => ({ ...row, at: bucket * bucketMs }))

type WaitingInLine = Pick<Notification, 'id' | 'tenant' | 'category' | 'dueAt'>

/** Finds the notifications that wait for the complaint guard, some `max` of those that `isIn` selects. */
export async function waitingForGuard(
  store: Pick<Store, 'scan'>,
  isIn: (notification: Notification) => boolean,
  max: number,
): Promise<WaitingInLine[]> {
  const waiting: WaitingInLine[] = []
  for (let cursor: string | null | undefined; cursor !== null && waiting.length < max; ) {
    const from: { cursor?: string } = cursor === undefined ? {} : { cursor }
    const page = await store.scan({ statuses: ['scheduled'], limit: scanMax, ...from })
    for (const each of page.items) {
      const { id, tenant, category, dueAt } = each
      if (waitingReason(each) === 'complaint_guard' && isIn(each))
        waiting.push({ id, tenant, category, dueAt })
    }
    cursor = page.nextCursor
  }
  return waiting
}
