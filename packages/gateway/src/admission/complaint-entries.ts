/** The categories of tenants that the complaint guard counts, bounded in number, and what it reports of each. */
import { type ComplaintRules, complaintBound, departureShare } from '../policy/complaint-guard.ts'
import type { ComplaintReport, ComplaintStage } from '../reports.ts'
import { RollingComplaints } from './complaint-counts.ts'
import type { CountedEvents, RecordedCounts } from './complaint-record.ts'
import type { DepartureLine } from './departure-line.ts'
import type { StoredStage } from './stored-stages.ts'

export interface Entry {
  readonly tenant: string
  readonly category: string
  counts: RollingComplaints
  stage: ComplaintStage
  since: number
  /** Departures in the hour before it was slowed or paused first. */
  departuresPerHour: number
  /** The end of a pause. */
  until: number
  line: DepartureLine | undefined
  /** Newcomers since its pause is over and the line of those who waited is being read from the record. */
  newcomers: string[] | undefined
  isUnwritten: boolean
  /** The stage on record, where another process decides; absent where it is free there. */
  onRecord: StoredStage | undefined
}

/** Entries at most, at 1.6 KiB each; the categories of further tenants are not guarded. */
const entriesMax = 50_000

export const complaintKey = (tenant: string, category: string): string => `${category}/${tenant}`

export class ComplaintEntries extends Map<string, Entry> {
  /** Returns the entry of a category, a new one where there is none; undefined where there is no room. */
  of(tenant: string, category: string, windowMs: number, now: number): Entry | undefined {
    const key = complaintKey(tenant, category)
    const known = this.get(key)
    if (known !== undefined) return known
    if (this.size >= entriesMax) this.#sweep(now)
    if (this.size >= entriesMax) return undefined
    const counts = new RollingComplaints(windowMs)
    const entry: Entry = {
      ...{ tenant, category, counts, stage: 'free', since: 0, departuresPerHour: 0, until: 0 },
      ...{ line: undefined, newcomers: undefined, isUnwritten: false, onRecord: undefined },
    }
    this.set(key, entry)
    return entry
  }

  /** Forgets entries whose window is empty. */
  #sweep(now: number): void {
    for (const [key, { counts, stage }] of this) {
      counts.roll(now)
      if (stage === 'free' && counts.delivered === 0 && counts.complained === 0) this.delete(key)
    }
  }
}

/** The growth of a category's counts since they were read before. */
export interface Growth {
  readonly tenant: string
  readonly category: string
  readonly delivered: number
  /** All complaints of the window, where there are more than before. */
  readonly complained?: readonly CountedEvents[]
}

type EntryOf = (tenant: string, category: string) => Entry | undefined

/** Adds what was read of the record to empty windows. */
export function addCounts({ delivered, departed, complained }: RecordedCounts, entryOf: EntryOf): void {
  for (const { tenant, category, at, count } of delivered)
    entryOf(tenant, category)?.counts.addDelivered(at, count)
  for (const { tenant, category, at, count } of departed)
    entryOf(tenant, category)?.counts.addDepartures(at, count)
  for (const { tenant, category, at, count } of complained)
    entryOf(tenant, category)?.counts.addComplained(at, count)
}

/** Adds growth as of now; returns the entries that have some. */
export function addGrowth(growth: readonly Growth[], entryOf: EntryOf, now: number): readonly Entry[] {
  return growth.flatMap(({ tenant, category, delivered, complained }) => {
    const entry = entryOf(tenant, category)
    if (entry === undefined) return []
    const { counts } = entry
    counts.roll(now)
    counts.addDelivered(now, delivered)
    counts.addDepartures(now, delivered)
    if (complained !== undefined) counts.clearComplained()
    for (const { at, count } of complained ?? []) counts.addComplained(at, count)
    return [entry]
  })
}

export function reportOf(entry: Entry, rules: ComplaintRules | undefined): ComplaintReport {
  const { tenant, category, counts, stage, since, until } = entry
  const { delivered, complained } = counts
  const bound = complaintBound(counts)
  const slowed = rules === undefined ? 1 : departureShare(rules, bound)
  return {
    ...{ tenant, category, stage, delivered, complained, bound },
    share: stage === 'free' ? 1 : stage === 'paused' ? 0 : slowed,
    ...(stage === 'free' ? {} : { since }),
    ...(stage === 'paused' ? { until } : {}),
  }
}
