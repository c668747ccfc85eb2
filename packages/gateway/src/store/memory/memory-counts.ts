/**
 * Counts of the in-memory store: notifications by status, and references to shared contents by notifications and
 * jobs.
 */

import { boundFor, isUnserved } from '../../bounds.ts'
import {
  delayingLimit,
  isFinal,
  type Job,
  type Notification,
  pendingBytesOf,
  pendingOf,
  type SharedContent,
} from '../../model.ts'
import type { Occupancy } from '../../ports/tenants.ts'
import type { JobWrite, Tally, WaitingContent } from '../../ports.ts'
import { keyOf } from './memory-keys.ts'

interface Kept {
  readonly content: SharedContent
  refs: number
  waiting: number
}

export class MemoryCounts {
  readonly #tallies = new Map<
    string,
    { tally: Omit<Tally, 'count' | 'bytes'>; count: number; bytes: number }
  >()
  readonly #contents = new Map<string, Kept>()
  readonly #onUse: (tenant: string, by: Occupancy) => void

  /** @param onUse hears what a change uses of the bounds of a tenant, or gives back */
  constructor(onUse: (tenant: string, by: Occupancy) => void) {
    this.#onUse = onUse
  }

  hasContent(id: string): boolean {
    return this.#contents.has(id)
  }

  put(content: SharedContent): void {
    this.#contents.set(content.id, { content, refs: 0, waiting: 0 })
  }

  find(tenant: string, id: string): SharedContent | undefined {
    const content = this.#contents.get(id)?.content
    return content?.tenant === tenant ? content : undefined
  }

  /** Tests if a notification has a text, its own or one that is kept apart. */
  hasText({ tenant, content, shared }: Notification): boolean {
    return (
      content !== undefined || (shared !== undefined && this.find(tenant, shared.id)?.content !== undefined)
    )
  }

  waiting(): readonly WaitingContent[] {
    const kept = [...this.#contents.values()].filter(({ waiting }) => waiting > 0)
    return kept.map(({ content: { id, tenant, bytes }, waiting }) => ({ id, tenant, bytes, waiting }))
  }

  tallies(): readonly Tally[] {
    const all = [...this.#tallies.values()].filter(({ count }) => count > 0)
    return all.map(({ tally, count, bytes }) => ({ ...tally, count, bytes }))
  }

  /** Adds a new notification to the counts, or subtracts a removed one. */
  add(notification: Notification, by: 1 | -1): void {
    this.#count(notification, by)
    if (notification.shared !== undefined)
      this.#refer(notification.shared.id, by, waits(notification) ? by : 0)
  }

  move(before: Notification, after: Notification): void {
    this.#count(before, -1)
    this.#count(after, 1)
    const by = Number(waits(after)) - Number(waits(before))
    if (after.shared !== undefined) this.#refer(after.shared.id, 0, by)
  }

  job(write: JobWrite): void {
    const runs = (job: Job | undefined): number => (job?.status === 'running' ? 1 : 0)
    const job = write.kind === 'open' ? write.job : write.after
    const by = runs(job) - (write.kind === 'open' ? 0 : runs(write.before))
    if (job.shared !== undefined) this.#refer(job.shared.id, by, by)
    const [after, before] = [job, write.kind === 'open' ? undefined : write.before]
    const queue = pendingOf(after) - (before === undefined ? 0 : pendingOf(before))
    const bytes = pendingBytesOf(after) - (before === undefined ? 0 : pendingBytesOf(before))
    this.#onUse(job.tenant, { queue, waiting: 0, bytes })
  }

  #refer(id: string, refs: number, waiting: number): void {
    const kept = this.#contents.get(id)
    if (kept === undefined) return
    kept.refs += refs
    kept.waiting += waiting
    if (kept.refs === 0) this.#contents.delete(id)
  }

  #count(notification: Notification, by: number): void {
    const { tenant, status, bytes = 0 } = notification
    const throttled = delayingLimit(notification) !== undefined
    const unserved = isUnserved(notification) ? ({ unserved: true } as const) : {}
    const key = keyOf(tenant, status, String(throttled), JSON.stringify(unserved))
    let found = this.#tallies.get(key)
    if (found === undefined) {
      found = { tally: { tenant, status, throttled, ...unserved }, count: 0, bytes: 0 }
      this.#tallies.set(key, found)
    }
    found.count += by
    if (!isFinal(status)) found.bytes += by * bytes
    const bound = boundFor(notification)
    if (bound !== undefined) this.#onUse(tenant, { queue: 0, waiting: 0, [bound]: by, bytes: by * bytes })
  }
}

/** True if its content counts as waiting; content of a notification that no pool serves counts in no bound. */
const waits = (notification: Notification): boolean =>
  !isFinal(notification.status) && !isUnserved(notification)
