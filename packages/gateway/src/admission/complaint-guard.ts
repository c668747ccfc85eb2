/**
 * The complaint guard: slows a category of a tenant whose recipients complain, pauses it where the rate of complaints
 * reaches the policy's bound, and lets it go on by itself. The counts are in memory and filled from the record at a
 * start; the stage of a category that is not free is on record, so that it holds from the first moment of the next
 * process. A pause is met like the hold of an operator: those who wait are booked behind its end, in order.
 */
import { waitingReason } from '../backlog-cell.ts'
import { isFinal, type Notification } from '../model.ts'
import {
  type ComplaintRules,
  complaintBound,
  departureShare,
  departureShareMin,
  nextStage,
} from '../policy/complaint-guard.ts'
import type { Policy } from '../policy/policy.ts'
import type { FeedbackRecord } from '../ports/feedback.ts'
import type { Clock, Store } from '../ports.ts'
import type { ComplaintChange, ComplaintReport, ComplaintStage } from '../reports.ts'
import { createUntilDone } from '../sleeper.ts'
import type { Happening, Ledger, RecipientLimiter } from '../stages.ts'
import { RollingComplaints } from './complaint-counts.ts'
import {
  addCounts,
  addGrowth,
  ComplaintEntries,
  complaintKey,
  type Entry,
  reportOf,
} from './complaint-entries.ts'
import { readCounts, waitingForGuard } from './complaint-record.ts'
import { DepartureLine, type LineRoom } from './departure-line.ts'
import type { FleetComplaints } from './fleet-complaints.ts'
import { createStageWriter, type StoredStage, storedStages } from './stored-stages.ts'

export interface ComplaintGuardOptions {
  readonly policy: Pick<Policy, 'complaints'>
  readonly store: Pick<Store, 'delivered' | 'holds' | 'scan'>
  readonly ledger: Pick<Ledger, 'commit' | 'subscribe'>
  /** The complaints on record. */
  readonly record: Pick<FeedbackRecord, 'complaints'>
  readonly clock: Clock
  /** Counts and stages that several processes share. @defaultValue this process has its record for itself */
  readonly fleet?: FleetComplaints | undefined
  readonly onError: (what: string, error: unknown) => void
}

type Guarded = Pick<Notification, 'id' | 'tenant' | 'category' | 'priority'> &
  Partial<Pick<Notification, 'attempts'>>

export interface ComplaintGuard {
  /** Returns the instant until which the guard stops a notification, an estimate; undefined where it does not. */
  guardedUntil(notification: Guarded): number | undefined
  /** Paces the departures of slowed categories. */
  behind(limiter: RecipientLimiter): RecipientLimiter
  /** Counts a complaint. */
  complained(complaint: { readonly tenant: string; readonly category: string; readonly at: number }): void
  /** Calls the listener for each category that is not free, and then for each change. */
  listen(listener: (change: ComplaintChange) => void): void
  /** Reports the categories that have counts. */
  report(): readonly ComplaintReport[]
  /** Another policy is in force. */
  policyChanged(): void
  /** Reads what other processes have counted and decided. Never rejects. */
  reread(): Promise<void>
  /** Restores the lines of slowed categories. To be called before anything leaves. */
  start(): Promise<void>
  /** Resolves when the counts are those of the record. */
  readonly filled: () => Promise<void>
  close(): Promise<void>
}

/** Places in the lines of slowed categories at most, of all tenants. */
const placesMax = 200_000
const perMinuteMin = 1
/** Delay until the record is read again after a failure, ms. */
const againMs = 1_000

export async function createComplaintGuard(options: ComplaintGuardOptions): Promise<ComplaintGuard> {
  const { policy, store, record, ledger, clock, fleet, onError } = options
  const entries = new ComplaintEntries()
  /** The entries that are not free; nearly always none. */
  const active = new Map<string, Entry>()
  const listeners: ((change: ComplaintChange) => void)[] = []
  const room: LineRoom = { taken: 0, max: placesMax }
  let rules = policy.complaints
  let categories: ReadonlySet<string> = new Set(rules?.categories)
  /** Counts the fills: the result of an earlier one is not used. */
  let fills = 0
  let isFilled = false
  let filling: Promise<void> = Promise.resolve()
  const stages = createStageWriter({ ledger, onWritten: fleet?.onWritten, onError })
  let disarm: (() => void) | undefined
  let endReading = (): void => {}
  let closed = false
  const untilDone = createUntilDone(clock, againMs, onError)

  const entryOf = (tenant: string, category: string): Entry | undefined =>
    rules !== undefined && categories.has(category)
      ? entries.of(tenant, category, rules.windowMs, clock.now())
      : undefined

  // ---- stages

  const decides = (): boolean => fleet === undefined || fleet.decides()

  /** The stage that follows from the counts, or that the process which decides has written. */
  const stageAfter = ({ counts, stage, onRecord }: Entry, of: ComplaintRules): ComplaintStage =>
    decides() ? nextStage(of, counts, stage) : (onRecord?.stage ?? 'free')

  /** Brings an entry to the stage that follows. */
  function evaluate(entry: Entry): void {
    if (rules === undefined || (decides() && !isFilled)) return
    const now = clock.now()
    const { counts, stage, onRecord } = entry
    if (stage === 'free' && counts.complained === 0 && onRecord === undefined) return
    counts.roll(now)
    const next = stageAfter(entry, rules)
    if (stage === 'paused' && next === 'slowed') {
      // It goes on when those who waited have their places in the line.
      if (entry.newcomers === undefined) void formLine(entry)
      entry.until = now + againMs
    } else change(entry, next, rules, now)
  }

  function change(entry: Entry, next: ComplaintStage, of: ComplaintRules, now: number): void {
    const { stage, counts, onRecord } = entry
    if (next !== stage) {
      const known = decides() ? undefined : onRecord
      if (known !== undefined) entry.departuresPerHour = known.departuresPerHour
      else if (stage === 'free') entry.departuresPerHour = counts.departedLastHour
      enterStage(entry, next, known?.since ?? now)
    }
    follow(entry, of, now)
    if (next !== stage) tell(entry, stage)
  }

  /** Makes the line of a category whose pause is over: those who waited, in the order of acceptance, then newcomers. */
  async function formLine(entry: Entry): Promise<void> {
    const { tenant, category } = entry
    const newcomers: string[] = []
    entry.newcomers = newcomers
    const isIn = (each: Notification): boolean => each.tenant === tenant && each.category === category
    const waiting = await untilDone.run('read who waits for the complaint guard', () =>
      waitingForGuard(store, isIn, placesMax),
    )
    entry.newcomers = undefined
    if (waiting === undefined || rules === undefined || entry.stage !== 'paused') return
    const now = clock.now()
    entry.counts.roll(now)
    const next = stageAfter(entry, rules)
    if (next === 'slowed') {
      const ids = new Set([...waiting.map(({ id }) => id), ...newcomers])
      entry.line = new DepartureLine(now, perMinuteMin, room)
      // An instant that was promised before binds nobody: they move up.
      for (const id of [...ids].sort()) entry.line.add(id, Number.NEGATIVE_INFINITY)
      entry.line.shareNumbers()
    }
    change(entry, next, rules, now)
  }

  function enterStage(entry: Entry, stage: ComplaintStage, since: number): void {
    const key = complaintKey(entry.tenant, entry.category)
    entry.stage = stage
    entry.since = since
    if (stage === 'free') active.delete(key)
    else active.set(key, entry)
    if (stage !== 'slowed') {
      entry.line?.close()
      entry.line = undefined
    }
    write(entry)
    arm()
  }

  /** Brings the rate of a line, or the end of a pause, to what the counts say. */
  function follow(entry: Entry, of: ComplaintRules, now: number): void {
    if (entry.stage === 'paused') {
      const until = entry.counts.earliest((counts) => nextStage(of, counts, 'paused') !== 'paused')
      // It is over when the process that decides has said so.
      entry.until = decides() ? until : Math.max(until, now + againMs)
    }
    if (entry.stage !== 'slowed') return
    // The least until it is known how much is complained about.
    const share = isFilled ? departureShare(of, complaintBound(entry.counts)) : departureShareMin
    const perMinute = Math.max(perMinuteMin, (entry.departuresPerHour / 60) * share)
    entry.line ??= new DepartureLine(now, perMinute, room)
    entry.line.setRate(now, perMinute, fleet?.count())
  }

  function tell(entry: Entry, before: ComplaintStage): void {
    const now = reportOf(entry, rules)
    for (const listener of listeners) listener({ before, now, ...(decides() ? {} : { isAdopted: true }) })
  }

  /** Counts change by themselves when a bucket leaves the window. */
  function arm(): void {
    disarm?.()
    disarm = undefined
    if (closed || active.size === 0) return
    const now = clock.now()
    disarm = clock.at(Math.min(...[...active.values()].map(({ counts }) => counts.changesAfter(now))), () => {
      for (const entry of [...active.values()]) {
        evaluate(entry)
        if (entry.isUnwritten) write(entry)
      }
      arm()
    })
  }

  /** Writes the stage of an entry. One that fails is written again by the next bucket. */
  function write(entry: Entry): void {
    entry.isUnwritten = false
    if (!decides()) return
    stages.write(entry, () => {
      entry.isUnwritten = true
    })
  }

  // ---- events

  function note({ notification, events }: Happening): void {
    const { id, tenant, category, status, firedAt, dueAt } = notification
    if (!categories.has(category)) return
    const { line, newcomers } = active.get(complaintKey(tenant, category)) ?? {}
    if (isFinal(status) || status === 'dead' || notification.attempts > 0) line?.leave(id)
    else if (events[0]?.status === 'accepted' && waitingReason(notification) === 'complaint_guard') {
      // In the order of acceptance, whatever comes due first.
      line?.add(id, dueAt)
      newcomers?.push(id)
    }
    // Where several processes share the record, the totals count it with the commit.
    if (fleet !== undefined || status !== 'delivered' || events.at(-1)?.status !== 'delivered') return
    const entry = entryOf(tenant, category)
    if (entry === undefined) return
    const leftAt = firedAt ?? clock.now()
    entry.counts.addDelivered(leftAt)
    entry.counts.addDepartures(leftAt)
    evaluate(entry)
  }

  // ---- filling

  function fill(): void {
    fills += 1
    isFilled = false
    filling = fillFrom(fills, clock.now())
  }

  /** Reads what left before this instant; what leaves from then on is counted as it happens. */
  async function fillFrom(own: number, to: number): Promise<void> {
    const isStale = (): boolean => own !== fills || rules === undefined
    const found = await untilDone.run('count what was delivered', async () =>
      isStale() ? undefined : (fleet?.fill(rules!, to) ?? readCounts(store, record, rules!, to)),
    )
    if (found === undefined || isStale()) return
    addCounts(found, entryOf)
    isFilled = true
    for (const entry of [...entries.values()]) evaluate(entry)
  }

  /** Ends every stage of categories that the policy in force does not guard. */
  function dropUnguarded(): void {
    for (const [key, entry] of entries) {
      if (categories.has(entry.category)) continue
      const before = entry.stage
      if (before !== 'free') {
        enterStage(entry, 'free', clock.now())
        tell(entry, before)
      }
      entries.delete(key)
    }
  }

  function restoreStage(stored: StoredStage): void {
    const { tenant, category, stage, since, departuresPerHour } = stored
    const entry = entryOf(tenant, category)
    if (entry === undefined || rules === undefined) {
      // Its category is guarded no more.
      if (decides()) stages.write({ ...stored, stage: 'free' })
      return
    }
    Object.assign(entry, { stage, since, departuresPerHour, onRecord: stored })
    active.set(complaintKey(tenant, category), entry)
    follow(entry, rules, clock.now())
    // Until the counts are filled nobody knows its end.
    if (stage === 'paused') entry.until = clock.now() + rules.windowMs
  }

  async function readShared(shared: FleetComplaints): Promise<void> {
    if (rules === undefined || !isFilled || closed) return
    const own = fills
    const { growth, stages: onRecord, takesOver } = await shared.next(rules)
    // Counts that are filled meanwhile hold the growth already.
    if (own !== fills || rules === undefined) return
    const now = clock.now()
    const grown = addGrowth(growth, entryOf, now)
    const changed = new Set([...(takesOver ? entries : active).values(), ...grown])
    for (const entry of entries.values()) entry.onRecord = undefined
    for (const stored of onRecord) {
      const entry = entryOf(stored.tenant, stored.category)
      if (entry === undefined) restoreStage(stored)
      else changed.add(Object.assign(entry, { onRecord: stored }))
    }
    for (const entry of changed) {
      evaluate(entry)
      if (entry.isUnwritten) write(entry)
      entry.line?.forgetPassed(now)
    }
  }

  const reread = async (): Promise<void> => {
    if (fleet !== undefined)
      await readShared(fleet).catch((error) => onError('read the counts of complaints', error))
  }

  for (const stored of storedStages(await store.holds())) restoreStage(stored)
  ledger.subscribe(note)
  fill()
  arm()
  if (fleet !== undefined) endReading = fleet.every(reread)

  return {
    reread,
    guardedUntil({ id, tenant, category, priority, attempts = 0 }) {
      if (active.size === 0 || priority === 'critical') return undefined
      const entry = active.get(complaintKey(tenant, category))
      if (entry === undefined) return undefined
      const now = clock.now()
      // Its end may come before the timer that waits for it.
      if (entry.stage === 'paused' && entry.until <= now) evaluate(entry)
      if (entry.stage === 'paused') return entry.until > now ? entry.until : undefined
      return attempts > 0 ? undefined : entry.line?.waitsUntil(id, now)
    },
    behind: (limiter) => ({
      ...limiter,
      fire(requests) {
        if (active.size === 0) return limiter.fire(requests)
        const now = clock.now()
        for (const { notification } of requests) {
          const { id, tenant, category, priority, attempts } = notification as Notification
          // A retry has departed before. A place is kept until the call is on record: fired is not sent yet.
          if (priority !== 'critical' && attempts === 0)
            active.get(complaintKey(tenant, category))?.line?.enter(id, now)
        }
        return limiter.fire(requests)
      },
    }),
    complained({ tenant, category, at }) {
      const entry = fleet === undefined ? entryOf(tenant, category) : undefined
      if (entry === undefined) return
      entry.counts.roll(clock.now())
      entry.counts.addComplained(Math.min(at, clock.now()))
      evaluate(entry)
    },
    listen(listener) {
      listeners.push(listener)
      for (const entry of active.values())
        listener({ before: 'free', now: reportOf(entry, rules), isAdopted: true })
    },
    report() {
      const now = clock.now()
      return [...entries.values()].map((entry) => {
        entry.counts.roll(now)
        return reportOf(entry, rules)
      })
    },
    policyChanged() {
      const before = rules
      rules = policy.complaints
      if (JSON.stringify(before) === JSON.stringify(rules)) return
      categories = new Set(rules?.categories)
      dropUnguarded()
      if (rules === undefined) return
      if (before?.windowMs === rules.windowMs && String(before.categories) === String(rules.categories)) {
        for (const entry of [...entries.values()]) evaluate(entry)
        return
      }
      for (const entry of entries.values()) entry.counts = new RollingComplaints(rules.windowMs)
      fill()
    },
    async start() {
      if (![...active.values()].some(({ line }) => line !== undefined)) return
      const lineOf = ({ tenant, category }: Pick<Entry, 'tenant' | 'category'>) =>
        active.get(complaintKey(tenant, category))?.line
      const waiting = await waitingForGuard(store, (each) => lineOf(each) !== undefined, placesMax)
      waiting.sort((a, b) => a.dueAt - b.dueAt || (a.id < b.id ? -1 : 1))
      for (const each of waiting) lineOf(each)?.add(each.id, each.dueAt)
    },
    filled: () => filling,
    async close() {
      closed = true
      disarm?.()
      endReading()
      untilDone.close()
      await filling
      await stages.written()
    },
  }
}
