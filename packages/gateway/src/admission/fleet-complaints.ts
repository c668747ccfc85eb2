/**
 * The counts and stages of the complaint guard where several processes share a record. Each process reads the totals of
 * all of them every second, and adds what they have grown by to its own windows; the one that holds the role decides the
 * stages and writes them, and the others follow what is on record. So all have the same counts and the same stages, and
 * whoever takes over the role goes on from both.
 */
import type { ComplaintRules } from '../policy/complaint-guard.ts'
import type { FeedbackRecord } from '../ports/feedback.ts'
import type { Members } from '../ports/fleet.ts'
import type { DeliveryTotal, DeliveryTotals } from '../ports/traffic.ts'
import type { Clock, Store } from '../ports.ts'
import { bucketMsOf } from './complaint-counts.ts'
import { complaintKey, type Growth } from './complaint-entries.ts'
import {
  type CountedEvents,
  departures,
  type RecordedCounts,
  startsOf,
  windowStart,
} from './complaint-record.ts'
import { type StoredStage, storedStages } from './stored-stages.ts'

export interface FleetComplaintsOptions {
  readonly totals: DeliveryTotals
  readonly store: Pick<Store, 'delivered' | 'holds'>
  readonly record: Pick<FeedbackRecord, 'list'>
  readonly members: Pick<Members, 'count' | 'holds'>
  readonly clock: Pick<Clock, 'now' | 'at' | 'monotonic'>
  /** Called when this process has written a stage. */
  readonly onWritten: () => void
}

/** The news of one reading. */
export interface SharedReading {
  readonly growth: readonly Growth[]
  readonly stages: readonly StoredStage[]
  /**
   * True where this process decides since this reading: it judges all counts, for those that have grown before were judged by
   * nobody where the process that decided was killed, or none did.
   */
  readonly takesOver: boolean
}

export interface FleetComplaints {
  /** True while this process decides the stages, for all. */
  decides(): boolean
  /** The number of processes among which the rate of a slowed category is divided. */
  count(): number
  /** Reads the windows before an instant, from which `next` goes on. */
  fill(rules: ComplaintRules, to: number): Promise<RecordedCounts>
  /** Reads the growth since the reading before, and the stages on record. */
  next(rules: ComplaintRules): Promise<SharedReading>
  /** Calls back every second, less often where reading takes long, until the returned function ends it. */
  every(read: () => Promise<void>): () => void
  readonly onWritten: () => void
}

const everyMs = 1_000
/** Rests are at least this many times as long as the shorter of the last two readings: one that met a busy machine is none. */
const restShare = 10
/** Readings that stay slow still find complaints within this. */
const restMsMax = 10_000
/** Complaints that are read at once. */
const pageMax = 1_000

export function createFleetComplaints(options: FleetComplaintsOptions): FleetComplaints {
  const { totals, store, record, members, clock, onWritten } = options
  /** The totals at the reading before; as many as categories of tenants have had a delivery or a complaint. */
  let known = new Map<string, DeliveryTotal>()
  /** Readings go one after the other: each begins where the one before has ended. */
  let last: Promise<unknown> = Promise.resolve()
  /** True if this process decided at the last reading. */
  let decided = false

  function inTurn<T>(read: () => Promise<T>): Promise<T> {
    const turn = last.then(read)
    last = turn.catch(() => undefined)
    return turn
  }

  const byKey = (found: readonly DeliveryTotal[]) =>
    new Map(found.map((total) => [complaintKey(total.tenant, total.category), total]))

  async function complaintsOf(
    { tenant, category }: Pick<DeliveryTotal, 'tenant' | 'category'>,
    from: number,
  ): Promise<readonly CountedEvents[]> {
    const found: CountedEvents[] = []
    const query = { tenant, category, type: 'complaint', from, to: Number.MAX_SAFE_INTEGER } as const
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await record.list({
        ...query,
        limit: pageMax,
        ...(cursor === undefined ? {} : { cursor }),
      })
      for (const { at, keptAt } of page.items)
        found.push({ tenant, category, at: Math.min(at, keptAt), count: 1 })
      cursor = page.nextCursor
    }
    return found
  }

  const decides = (): boolean => members.holds('complaints')

  return {
    decides,
    count: () => members.count(),
    onWritten,
    fill: (rules, to) =>
      inTurn(async () => {
        const { windowMs, categories } = rules
        const bucketMs = bucketMsOf(windowMs)
        const from = windowStart(rules, to)
        const departed = await departures(store, categories, to)
        const found = await totals.readWith({ from, bucketMs, categories })
        const complained: CountedEvents[] = []
        for (const total of found.totals)
          if (total.complained > 0) complained.push(...(await complaintsOf(total, from)))
        known = byKey(found.totals)
        return { delivered: startsOf(found.delivered, bucketMs), departed, complained }
      }),
    next: (rules) =>
      inTurn(async () => {
        const now = byKey(await totals.read(rules.categories))
        const growth: Growth[] = []
        for (const [key, total] of now) {
          const before = known.get(key)
          const delivered = Math.max(0, total.delivered - (before?.delivered ?? 0))
          const isMore = total.complained > (before?.complained ?? 0)
          if (delivered === 0 && !isMore) continue
          const { tenant, category } = total
          growth.push({
            ...{ tenant, category, delivered },
            ...(isMore ? { complained: await complaintsOf(total, windowStart(rules, clock.now())) } : {}),
          })
        }
        const stages = storedStages(await store.holds())
        known = now
        const takesOver = decides() && !decided
        decided = decides()
        return { growth, stages, takesOver }
      }),
    every(read) {
      let isOpen = true
      let disarm = clock.at(clock.now() + everyMs, again)
      let beforeMs = 0
      function again(): void {
        const beganAt = clock.monotonic()
        void read().finally(() => {
          const tookMs = clock.monotonic() - beganAt
          const wishedMs = restShare * Math.min(tookMs, beforeMs)
          const restMs = Math.min(Math.max(everyMs, wishedMs), restMsMax)
          beforeMs = tookMs
          if (isOpen) disarm = clock.at(clock.now() + restMs, again)
        })
      }
      return () => {
        isOpen = false
        disarm()
      }
    },
  }
}
