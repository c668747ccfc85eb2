/** The record of feedback in the in-memory store. */
import type { Notification } from '../../model.ts'
import type {
  FeedbackEvent,
  FeedbackPage,
  FeedbackQuery,
  FeedbackRecord,
  NotificationName,
  ReportedNotification,
  SentRecord,
  WaitingBounds,
  WaitingReport,
} from '../../ports/feedback.ts'
import { pseudonymPrefix } from '../../ports.ts'

/** Names what is left of a recipient who is being erased; undefined for all others. */
type PendingNameOf = (tenant: string, recipient: string) => string | undefined
type Range = Pick<FeedbackQuery, 'from' | 'to' | 'cursor' | 'limit'>

const keyOf = ({ tenant, notificationId, key }: FeedbackEvent): string =>
  JSON.stringify([tenant, notificationId, key])
const nameOf = ({ tenant, notificationId }: NotificationName): string =>
  JSON.stringify([tenant, notificationId])
const byTime = (a: FeedbackEvent, b: FeedbackEvent): number => a.at - b.at

export class MemoryFeedback implements FeedbackRecord {
  readonly #tenants: ReadonlyMap<string, ReadonlyMap<string, Notification>>
  readonly #pendingNameOf: PendingNameOf
  readonly #events = new Map<string, FeedbackEvent>()
  readonly #sent = new Map<string, SentRecord>()
  readonly #waiting = new Map<string, WaitingReport>()

  constructor(tenants: ReadonlyMap<string, ReadonlyMap<string, Notification>>, pendingNameOf: PendingNameOf) {
    this.#tenants = tenants
    this.#pendingNameOf = pendingNameOf
  }

  async keep(events: readonly FeedbackEvent[]): Promise<readonly boolean[]> {
    return events.map((event) => {
      if (this.#events.has(keyOf(event))) return false
      const { detail: _, ...rest } = event
      const to = this.#tenants.get(event.tenant)?.get(event.notificationId)?.to
      this.#events.set(keyOf(event), to?.id.startsWith(pseudonymPrefix) === false ? event : rest)
      return true
    })
  }

  async of(tenant: string, ids: readonly string[]): Promise<readonly FeedbackEvent[]> {
    const wanted = new Set(ids)
    return [...this.#events.values()]
      .filter((event) => event.tenant === tenant && wanted.has(event.notificationId))
      .sort(byTime)
  }

  async keysOf(names: readonly NotificationName[]): Promise<readonly (readonly string[])[]> {
    const kept = Map.groupBy(this.#events.values(), nameOf)
    return names.map((name) => (kept.get(nameOf(name)) ?? []).map(({ key }) => key))
  }

  async list({ tenant, category, type, ...range }: FeedbackQuery): Promise<FeedbackPage> {
    return this.#page(
      (event) => event.tenant === tenant && event.category === category && event.type === type,
      range,
    )
  }

  async complaints(range: Range): Promise<FeedbackPage> {
    return this.#page(({ type }) => type === 'complaint', range)
  }

  #page(isWanted: (event: FeedbackEvent) => boolean, { from, to, cursor, limit }: Range): FeedbackPage {
    const found = [...this.#events.values()]
      .filter((event) => isWanted(event) && event.at >= from && event.at < to)
      .sort(byTime)
    const begin = cursor === undefined ? 0 : found.findIndex((event) => keyOf(event) === cursor) + 1
    const items = found.slice(begin, begin + limit)
    return { items, nextCursor: items.length < limit ? null : keyOf(items.at(-1)!) }
  }

  async keepWaiting(
    reports: readonly WaitingReport[],
    { ofOne, ofAll }: WaitingBounds,
  ): Promise<readonly boolean[]> {
    return reports.map((report) => {
      if (this.#waiting.has(report.id)) return true
      const own = [...this.#waiting.values()].filter(({ reporter }) => reporter === report.reporter)
      if (this.#waiting.size >= ofAll || own.length >= ofOne) return false
      this.#waiting.set(report.id, report)
      return true
    })
  }

  async waiting(limit: number, after = ''): Promise<readonly WaitingReport[]> {
    const behind = [...this.#waiting.values()].filter(({ id }) => id > after)
    return behind.sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, limit)
  }

  async endWaiting(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#waiting.delete(id)
  }

  async keepSent(records: readonly SentRecord[]): Promise<void> {
    for (const record of records) this.#sent.set(record.key, record)
  }

  async findSent(keys: readonly string[], since: number): Promise<readonly (SentRecord | undefined)[]> {
    return keys.map((key) => {
      const found = this.#sent.get(key)
      return found === undefined || found.sentAt < since ? undefined : found
    })
  }

  async reported(ids: readonly string[]): Promise<readonly (ReportedNotification | undefined)[]> {
    const tenants = [...this.#tenants.values()]
    return ids.map((id) => {
      const found = tenants.find((rows) => rows.has(id))?.get(id)
      const name = found && this.#pendingNameOf(found.tenant, found.to.id)
      return found === undefined || name === undefined ? found : { ...found, to: { id: name } }
    })
  }

  async prune({ events, sent }: { readonly events: number; readonly sent: number }): Promise<number> {
    let rows = 0
    for (const [key, event] of this.#events) if (event.keptAt < events && this.#events.delete(key)) rows += 1
    for (const [key, record] of this.#sent) if (record.sentAt < sent && this.#sent.delete(key)) rows += 1
    return rows
  }

  /** Removes the words of providers about a notification whose recipient is erased, or which is removed. */
  forget(tenant: string, notificationId: string): void {
    for (const [key, event] of this.#events) {
      if (event.tenant !== tenant || event.notificationId !== notificationId) continue
      const { detail: _, ...rest } = event
      this.#events.set(key, rest)
    }
  }
}
