/**
 * Counts how much of its bounds each tenant uses: queued and waiting notifications, and bytes of content. Room is taken
 * before a change is written and given back after it, when the change itself counts.
 */
import { boundFor, boundOf } from '../bounds.ts'
import { SluiceError } from '../errors.ts'
import type { ContentRef, Job, Notification } from '../model.ts'
import { pendingBytesOf, pendingOf } from '../model.ts'
import type { Store, Tally } from '../ports.ts'
import type { Ledger, Room } from '../stages.ts'

export interface TenantBounds {
  /**
   * Maximum of queued notifications, those delayed by a tenant or module limit, dead letters, and what jobs still
   * accept.
   */
  readonly queueMax: number
  /** Maximum of notifications that are scheduled, in a digest, or delayed by a recipient limit. */
  readonly waitingMax: number
  /** Maximum bytes of content that waits, as it is stored. */
  readonly bytesMax: number
}

/** The use of each bound of one tenant. */
export type Occupancy = ReturnType<Ledger['occupancy']>

/** Counts what waits of one tenant; a tenant without anything waiting has no entry. */
interface Account {
  queue: number
  waiting: number
  bytes: number
}

const nothing: Readonly<Account> = { queue: 0, waiting: 0, bytes: 0 }

/** Retry-After for a client whose tenant's queue is full, ms. */
const fullRetryAfterMs = 5_000

export interface OccupanciesOptions {
  readonly boundsFor: (tenant: string) => TenantBounds
  /** Called when a tenant has no room left in one of its bounds. */
  readonly onFull?: ((tenant: string, bound: keyof Occupancy) => void) | undefined
}

export class Occupancies {
  readonly #options: OccupanciesOptions
  readonly #accounts = new Map<string, Account>()
  /** Waiting notifications that refer to a content stored apart, by content id. */
  readonly #references = new Map<string, number>()

  constructor(options: OccupanciesOptions) {
    this.#options = options
  }

  /** Counts what waits on record at the start. */
  async restore(
    store: Pick<Store, 'waitingContents' | 'runningJobs'>,
    tallies: readonly Tally[],
  ): Promise<void> {
    for (const tally of tallies) {
      if (tally.unserved === true) continue
      const bound = boundOf(tally.status, tally.throttled ? 'tenant_limit' : undefined)
      if (bound !== undefined) this.#occupy(tally.tenant, { [bound]: tally.count, bytes: tally.bytes })
    }
    for (const content of await store.waitingContents()) {
      this.#references.set(content.id, content.waiting)
      this.#occupy(content.tenant, { bytes: content.bytes })
    }
    // Recipients that a job has yet to accept count in the queue bound of its tenant.
    for (const job of await store.runningJobs())
      this.#occupy(job.tenant, { queue: pendingOf(job), bytes: pendingBytesOf(job) })
  }

  count(notification: Notification, by: 1 | -1): void {
    const { tenant, bytes = 0, shared } = notification
    const bound = boundFor(notification)
    if (bound === undefined) return
    this.#occupy(tenant, { [bound]: by, bytes: by * bytes })
    if (shared !== undefined) this.#refer(tenant, shared, by)
  }

  countJob(job: Job, by: 1 | -1): void {
    if (job.status !== 'running') return
    this.#occupy(job.tenant, { queue: by * pendingOf(job), bytes: by * pendingBytesOf(job) })
    if (job.shared !== undefined) this.#refer(job.tenant, job.shared, by)
  }

  /** Takes room within the bounds of a tenant or throws QUEUE_FULL; the returned function gives it back. */
  takeRoom(tenant: string, room: Room): () => void {
    const full = fullBound(this.#accounts.get(tenant) ?? nothing, room, this.#options.boundsFor(tenant))
    if (full !== undefined) {
      this.#options.onFull?.(tenant, full.bound)
      throw new SluiceError(
        'QUEUE_FULL',
        `Tenant ${tenant} has ${full.use}. Nothing was accepted; try again later.`,
        { retryAfterMs: fullRetryAfterMs },
      )
    }
    const { waiting, bytes = 0 } = room
    const queue = room.queue + room.critical
    this.#occupy(tenant, { queue, waiting, bytes })
    let given = false
    return () => {
      if (given) return
      given = true
      this.#occupy(tenant, { queue: -queue, waiting: -waiting, bytes: -bytes })
    }
  }

  of(tenant: string): Occupancy {
    const { queue, waiting, bytes } = this.#accounts.get(tenant) ?? nothing
    return { queue, waiting, bytes }
  }

  #occupy(tenant: string, by: Partial<Account>): void {
    const { queue = 0, waiting = 0, bytes = 0 } = by
    const of = this.#accounts.get(tenant)
    if (of === undefined) {
      if (queue !== 0 || waiting !== 0 || bytes !== 0) this.#accounts.set(tenant, { queue, waiting, bytes })
      return
    }
    of.queue += queue
    of.waiting += waiting
    of.bytes += bytes
    if (of.queue === 0 && of.waiting === 0 && of.bytes === 0) this.#accounts.delete(tenant)
  }

  /** Counts a content once, as long as any waiting notification refers to it. */
  #refer(tenant: string, { id, bytes }: ContentRef, by: number): void {
    const before = this.#references.get(id) ?? 0
    const after = before + by
    if (after === 0) this.#references.delete(id)
    else this.#references.set(id, after)
    if (before === 0) this.#occupy(tenant, { bytes })
    if (after === 0) this.#occupy(tenant, { bytes: -bytes })
  }
}

/** Describes the bound that has no room left, and its present use. */
function fullBound(
  of: Account,
  room: Room,
  bounds: TenantBounds,
): { readonly bound: keyof Occupancy; readonly use: string } | undefined {
  const { queue, critical, waiting, bytes = 0 } = room
  const { queueMax, waitingMax, bytesMax } = bounds
  if (waiting > 0 && of.waiting + waiting > waitingMax)
    return { bound: 'waiting', use: `${of.waiting} of at most ${waitingMax} notifications waiting` }
  // Critical notifications have a tenth on top; a queue bound below ten has one place on top, too.
  const queueFull = queue > 0 && of.queue + queue > queueMax
  if (queueFull || (critical > 0 && of.queue + queue + critical > queueMax + Math.ceil(queueMax / 10)))
    return { bound: 'queue', use: `${of.queue} of at most ${queueMax} notifications queued` }
  const isCritical = critical > 0 && queue + waiting === 0
  if (bytes > 0 && of.bytes + bytes > bytesMax * (isCritical ? 1.1 : 1))
    return {
      bound: 'bytes',
      use: `${of.bytes} of at most ${bytesMax} bytes of content waiting, and this has ${bytes}`,
    }
  return undefined
}
