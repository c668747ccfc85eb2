/**
 * Takes reports of providers and callers: correlates each with its notification, applies it to the recipient, and
 * records it. Calls that arrive while others are written share the next batch, and so one durable commit. An event is
 * applied before it is recorded: where the process ends in between, the reporter repeats it, and both are idempotent.
 * A report whose notification is not known yet waits on record and is tried again: webhooks overtake the settlement.
 */
import { createHash } from 'node:crypto'
import { conflicted, retryOnConflict } from '../conflict.ts'
import { SluiceError } from '../errors.ts'
import type { Recipient } from '../model.ts'
import {
  type FeedbackEvent,
  type FeedbackHappening,
  type FeedbackRecord,
  type FeedbackSource,
  type FeedbackType,
  feedbackTypes,
  type NotificationName,
  type WaitingReport,
} from '../ports/feedback.ts'
import type { ReportedOf } from '../ports/recipients.ts'
import type { Clock } from '../ports.ts'
import type { Correlate, ReportBy } from './correlation.ts'
import type { RecipientChange } from './effects.ts'
import { keyOf, type Report, type Reporter } from './report.ts'
import { editsOf, nameOfRecipient, type ReportedEvent, reportedEvent } from './reported-event.ts'

export interface FeedbackOptions {
  readonly record: Pick<FeedbackRecord, 'keep' | 'keysOf' | 'keepWaiting' | 'waiting' | 'endWaiting'>
  readonly correlate: Correlate
  /** Changes a stored recipient, after the changes before it; throws NOT_FOUND where the recipient was erased meanwhile. */
  readonly edit: (
    tenant: string,
    id: string,
    change: RecipientChange,
    reportedOf: readonly ReportedOf[],
  ) => Promise<Recipient>
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** True while this process tries the waiting reports of all processes again. */
  readonly tries: () => boolean
  /** True where other processes write waiting reports too, so that they are looked for all the time. */
  readonly isShared: boolean
  /** Called with reports whose notification was not found in time. */
  readonly onUnknown: (reports: readonly ReportBy[]) => void
  readonly onError: (what: string, error: unknown) => void
}

export interface Feedback extends FeedbackSource {
  /** Takes reports; resolves when those whose notification is known are on disk, and applied. */
  report(reports: readonly Report[], by: Reporter): Promise<void>
  /** Counts since the start: new events by type, reports that waited in vain, and those that wait. */
  counts(): FeedbackCounts
  /** Begins with what waits on record. */
  start(): void
  stop(): Promise<void>
}

interface FeedbackCounts {
  readonly events: Readonly<Record<FeedbackType, number>>
  readonly unknown: number
  readonly waiting: number
}

/** Reports of one batch at most. */
const batchMax = 1_000
/** Reports that wait for their batch at most; above it new ones are refused. */
const queuedMax = 20_000
/** A report of an unknown notification is tried again for this long, ms. */
const unknownForMs = 600_000
/** Interval between two tries, ms. */
const againMs = 5_000
/** Reports of unknown notifications that wait: of one reporter, and of all. */
const waitingBounds = { ofOne: 1_000, ofAll: 10_000 }
/** Events that are kept of one notification: openings and clicks have no end. Others have as many again. */
const keptMax = 64
const isCounted = (type: FeedbackType): boolean =>
  type === 'complaint' || type === 'bounce' || type === 'unsubscribe'

interface Call {
  readonly reports: readonly ReportBy[]
  /** The same reports as they wait on record; absent for a first try. */
  readonly waiting?: readonly WaitingReport[]
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

interface Correlated extends ReportedEvent {
  readonly call: Call
  /** The id under which the report waits on record; absent for a first try. */
  readonly waits: string | undefined
}

export function createFeedback(options: FeedbackOptions): Feedback {
  const { record, correlate, edit, clock, tries, isShared, onUnknown, onError } = options
  const events = Object.fromEntries(feedbackTypes.map((type) => [type, 0])) as Record<FeedbackType, number>
  const listeners = new Set<(happening: FeedbackHappening) => void>()
  const calls: Call[] = []
  let queued = 0
  let running: Promise<void> | undefined
  /** The number of reports that wait on record, as far as this process knows. */
  let waiting = 0
  let unknown = 0
  let disarm: (() => void) | undefined
  let isStopped = false
  let trying: Promise<void> = Promise.resolve()
  /** Notifications whose events change a recipient just now, and the end of that change. */
  const changing = new Map<string, Promise<void>>()

  function enqueue(reports: readonly ReportBy[], waiting?: readonly WaitingReport[]): Promise<void> {
    return new Promise((resolve, reject) => {
      queued += reports.length
      calls.push({ reports, resolve, reject, ...(waiting === undefined ? {} : { waiting }) })
      running ??= run().finally(() => {
        running = undefined
      })
    })
  }

  async function run(): Promise<void> {
    // Calls of the same turn of the event loop share the first batch.
    await undefined
    while (calls.length > 0) {
      const batch = nextBatch()
      try {
        const rest = await write(batch)
        const later = batch.filter((call) => rest.some((each) => each.call === call))
        end(batch.filter((call) => !later.includes(call)))
        if (rest.length > 0) changeBeside(rest, later)
      } catch (error) {
        end(batch, error)
      }
    }
  }

  function nextBatch(): readonly Call[] {
    const batch = [calls.shift()!]
    let size = batch[0]!.reports.length
    while (calls.length > 0 && size + calls[0]!.reports.length <= batchMax) {
      size += calls[0]!.reports.length
      batch.push(calls.shift()!)
    }
    return batch
  }

  function end(ended: readonly Call[], error?: unknown): void {
    for (const { reports, resolve, reject } of ended) {
      queued -= reports.length
      if (error === undefined) resolve()
      else reject(error)
    }
  }

  /** Writes the events of notifications whose recipient none of them changes; returns the others. */
  async function write(batch: readonly Call[]): Promise<readonly Correlated[]> {
    const reports = batch.flatMap((call) =>
      call.reports.map((each, index) => ({ ...each, call, waits: call.waiting?.[index] })),
    )
    const now = clock.now()
    const notifications = await correlate(reports)
    const found: Correlated[] = []
    const unknownYet: ReportBy[] = []
    const ended: string[] = []
    for (const [index, notification] of notifications.entries()) {
      const { report, by, call, waits } = reports[index]!
      if (notification !== undefined)
        found.push({ call, waits: waits?.id, ...reportedEvent({ report, by }, notification, now) })
      else if (waits === undefined) unknownYet.push({ report, by })
      else if (waits.until <= now) {
        giveUp({ report, by })
        ended.push(waits.id)
      }
    }
    await keepWaiting(unknownYet, now)
    const fresh = await unknownOf(found)
    // Events of one notification stay together, since those of one instant are shown as they were reported.
    const changed = new Set(fresh.flatMap(({ change, event }) => (change === undefined ? [] : nameOf(event))))
    const rest = fresh.filter(({ event }) => changed.has(nameOf(event)))
    await keep(fresh.filter(({ event }) => !changed.has(nameOf(event))))
    const left = new Set(rest.map(({ waits }) => waits))
    await endWaiting([...ended, ...found.flatMap(({ waits }) => (left.has(waits) ? [] : (waits ?? [])))])
    return rest
  }

  /** Changes recipients; returns the events of those who were erased since they were read: of them nothing is changed. */
  async function changeRecipients(events: readonly Correlated[]): Promise<readonly Correlated[]> {
    const erased = await Promise.all(
      editsOf(events).map(async ({ tenant, recipient, change, reportedOf }) => {
        try {
          await edit(tenant, recipient, change, reportedOf)
          return []
        } catch (error) {
          if (error instanceof SluiceError && error.code === 'NOT_FOUND')
            return [nameOfRecipient(tenant, recipient)]
          throw error
        }
      }),
    )
    const names = new Set(erased.flat())
    return events.filter(({ event: { tenant }, recipient }) => names.has(nameOfRecipient(tenant, recipient)))
  }

  /** Reads the notifications of events again; what retention has removed meanwhile is left out. */
  async function readAgain(events: readonly Correlated[]): Promise<readonly Correlated[]> {
    const notifications = await correlate(events.map(({ reported }) => reported))
    const now = clock.now()
    return events.flatMap((each, index) => {
      const notification = notifications[index]
      return notification === undefined ? [] : { ...each, ...reportedEvent(each.reported, notification, now) }
    })
  }

  /** Changes recipients and then keeps the events. Other processes make it wait; batches behind it do not. */
  function changeBeside(events: readonly Correlated[], ending: readonly Call[]): void {
    async function change(): Promise<void> {
      let left = events
      // Notifications of erased recipients are read again under the names that are left, which no erasure takes away.
      const end = await retryOnConflict(async () => {
        const erased = await changeRecipients(left)
        await keep(left.filter((each) => !erased.includes(each)))
        if (erased.length === 0) return true
        left = await readAgain(erased)
        return conflicted
      })
      if (end === conflicted)
        throw new SluiceError('STORE_UNAVAILABLE', 'The recipient met too many changes at once. Try again.', {
          retryAfterMs: 1_000,
        })
      await endWaiting(events.flatMap(({ waits }) => waits ?? []))
    }
    const names = events.map(({ event }) => nameOf(event))
    const changed = change()
      .then(
        () => end(ending),
        (error) => end(ending, error),
      )
      .finally(() => {
        for (const name of names) changing.delete(name)
      })
    for (const name of names) changing.set(name, changed)
  }

  async function endWaiting(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return
    await record.endWaiting(ids)
    waiting = Math.max(0, waiting - ids.length)
  }

  /** Leaves out events that are on record, and those beyond what is kept of one notification. */
  async function unknownOf(found: readonly Correlated[]): Promise<readonly Correlated[]> {
    const first = new Map(found.map(({ event }) => [nameOf(event), event]))
    await Promise.all([...first.keys()].map((name) => changing.get(name)))
    const keys = first.size === 0 ? [] : await record.keysOf([...first.values()])
    const kept = new Map([...first.keys()].map((name, index) => [name, new Set(keys[index])]))
    return found.filter(({ event }) => {
      const known = kept.get(nameOf(event))!
      if (known.has(event.key) || known.size >= (isCounted(event.type) ? 2 * keptMax : keptMax)) return false
      known.add(event.key)
      return true
    })
  }

  async function keep(correlated: readonly Correlated[]): Promise<void> {
    if (correlated.length === 0) return
    const areNew = await record.keep(correlated.map(({ event }) => event))
    for (const [index, { event }] of correlated.entries()) if (areNew[index] === true) tell(event)
  }

  function tell({ tenant, category, channel, type, at, notificationId }: FeedbackEvent): void {
    events[type] += 1
    for (const listener of listeners) listener({ tenant, category, channel, type, at, notificationId })
  }

  function giveUp(report: ReportBy): void {
    unknown += 1
    onUnknown([report])
  }

  async function keepWaiting(reports: readonly ReportBy[], now: number): Promise<void> {
    if (reports.length === 0) return
    const rows = reports.map((each) => waitingOf(each, now + unknownForMs))
    const areKept = await record.keepWaiting(rows, waitingBounds)
    for (const [index, each] of reports.entries())
      if (areKept[index] === true) waiting += 1
      else giveUp(each)
    arm()
  }

  function arm(): void {
    if (!isStopped && (waiting > 0 || isShared)) disarm ??= clock.at(clock.now() + againMs, () => tryAgain())
  }

  function tryAgain(): void {
    disarm = undefined
    // The process that tries the reports of all ends them, and only that one counts them.
    if (!tries()) waiting = 0
    trying = (tries() ? tryPages() : Promise.resolve())
      .catch((error) => onError('try feedback again', error))
      .finally(arm)
  }

  async function tryPages(): Promise<void> {
    // Counted anew: another process may have tried them, and a report that waited already was counted twice.
    waiting = 0
    for (let after: string | undefined; ; ) {
      const page = await record.waiting(batchMax, after)
      waiting += page.length
      const reports = page.map(({ body }) => JSON.parse(body) as ReportBy)
      if (page.length > 0) await enqueue(reports, page)
      after = page.at(-1)?.id
      if (page.length < batchMax || isStopped) return
    }
  }

  return {
    async report(reports, by) {
      if (queued + reports.length > queuedMax)
        throw new SluiceError('STORE_UNAVAILABLE', 'Too much feedback waits to be stored. Try again.', {
          retryAfterMs: 1_000,
        })
      const parts: Promise<void>[] = []
      for (let begin = 0; begin < reports.length; begin += batchMax)
        parts.push(enqueue(reports.slice(begin, begin + batchMax).map((report) => ({ report, by }))))
      await Promise.all(parts)
    },
    onFeedback(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    counts: () => ({ events: { ...events }, unknown, waiting }),
    start: tryAgain,
    async stop() {
      isStopped = true
      disarm?.()
      await trying
      await running
      await Promise.all(changing.values())
    },
  }
}

const nameOf = ({ tenant, notificationId }: NotificationName): string =>
  JSON.stringify([tenant, notificationId])

const reporterOf = (by: Reporter): string =>
  by.tenant === undefined ? `account ${by.channel} ${by.account}` : `tenant ${by.tenant}`

/** A report as it waits on record: the same one has the same id. */
function waitingOf({ report, by }: ReportBy, until: number): WaitingReport {
  const { notificationId, providerMessageId, address } = report
  const reporter = reporterOf(by)
  const named = JSON.stringify([reporter, notificationId, providerMessageId, address, keyOf(report)])
  const id = createHash('sha256').update(named).digest('hex').slice(0, 32)
  return { id, reporter, until, body: JSON.stringify({ report, by }) }
}
