/**
 * Counts how much of its bounds each tenant uses (ports/tenants.ts): queued and waiting notifications, and bytes of content.
 * Room is taken before a change is written and given back after it, when the change itself counts.
 */
import { boundFor, boundOf } from '../bounds.ts'
import { SluiceError } from '../errors.ts'
import { type ContentRef, type Job, type Notification, pendingBytesOf, pendingOf } from '../model.ts'
import type { Occupancy, Room, RoomState, RoomTaken, TakenRoom, TenantBounds } from '../ports/tenants.ts'
import type { Store, Tally } from '../ports.ts'

/** Retry-After for a client whose tenant's queue is full, ms. */
const fullRetryAfterMs = 5_000

export interface OccupanciesOptions {
  readonly room: RoomState
  readonly boundsFor: (tenant: string) => TenantBounds
  /** Called when a tenant has no room left in one of its bounds. */
  readonly onFull?: ((tenant: string, bound: keyof Occupancy) => void) | undefined
}

export class Occupancies {
  readonly #options: OccupanciesOptions
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
    if (this.#options.room.isShared) return
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

  /**
   * Takes room within the bounds of a tenant or throws QUEUE_FULL. A promise where other processes must be asked.
   */
  takeRoom(tenant: string, room: Room): TakenRoom | Promise<TakenRoom> {
    const bounds = this.#options.boundsFor(tenant)
    const taken = this.#options.room.take(tenant, room, bounds)
    if (taken instanceof Promise) return taken.then((answer) => this.#taken(tenant, room, bounds, answer))
    return this.#taken(tenant, room, bounds, taken)
  }

  of(tenant: string): Occupancy {
    return this.#options.room.of(tenant)
  }

  #taken(tenant: string, room: Room, bounds: TenantBounds, taken: RoomTaken): TakenRoom {
    if ('giveBack' in taken) return taken
    const { full, used } = taken
    this.#options.onFull?.(tenant, full)
    throw new SluiceError(
      'QUEUE_FULL',
      full === 'queue'
        ? queueFullDetail
        : `Tenant ${tenant} has ${useOf(full, used, room, bounds)}. Nothing was accepted; try again later.`,
      { retryAfterMs: fullRetryAfterMs },
    )
  }

  #occupy(tenant: string, by: Partial<Occupancy>): void {
    this.#options.room.count(tenant, by)
  }

  /** Counts a content once, as long as any waiting notification refers to it. */
  #refer(tenant: string, { id, bytes }: ContentRef, by: number): void {
    // Other processes end notifications that refer to it, which this one does not see: it counts in no bound.
    if (this.#options.room.isShared) return
    const before = this.#references.get(id) ?? 0
    const after = before + by
    if (after === 0) this.#references.delete(id)
    else this.#references.set(id, after)
    if (before === 0) this.#occupy(tenant, { bytes })
    if (after === 0) this.#occupy(tenant, { bytes: -bytes })
  }
}

/** The answer is the same whatever holds the queue of the tenant. */
const queueFullDetail = 'Notification queue is at capacity. Retry after existing notifications are processed.'

/** Describes the use of the bound that has not enough room. */
function useOf(full: 'waiting' | 'bytes', used: number, { bytes = 0 }: Room, bounds: TenantBounds): string {
  if (full === 'waiting') return `${used} of at most ${bounds.waitingMax} notifications waiting`
  return `${used} of at most ${bounds.bytesMax} bytes of content waiting, and this has ${bytes}`
}
