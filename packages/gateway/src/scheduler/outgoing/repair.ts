/**
 * Finds notifications that are left to the broker and of which it has no message any more, and frees them: the due poller
 * finds them again, within 30 s. A broker cannot be asked which messages it has, so three signs count: the
 * queue was missing, three looks found it empty or got no answer, or messages that were published long after have come out
 * of it. A notification that is freed in error is published twice, and its second message finds nothing.
 */
import { type Priority, priorities } from '../../model.ts'
import type { Members } from '../../ports/fleet.ts'
import type { LeftToBroker, OutgoingMessage, OutgoingQueues } from '../../ports/outgoing.ts'
import type { Clock } from '../../ports.ts'

export interface RepairOptions {
  readonly queues: Pick<OutgoingQueues, 'isOpen' | 'look' | 'consume' | 'release'>
  readonly left: Pick<LeftToBroker, 'free' | 'tenants'>
  readonly members: Pick<Members, 'holds'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** Messages of a tenant that wait in this process. */
  readonly waiting: (tenant: string) => number
  readonly prefetchOf: (tenant: string) => number
  /** Notifications were freed: the due poller is to read soon. */
  readonly onFreed: () => void
  readonly onError: (what: string, error: unknown) => void
  /** Time between two looks. @defaultValue 5_000 ms */
  readonly everyMs?: number
}

interface Watched {
  /** Looks in a row in which the queue was empty, or that got no answer. */
  empty: number
  /** The newest publication that has come out of the queue, by priority. */
  readonly passed: Map<Priority, number>
  /** The last time at which notifications were freed, and the time until they may be again. */
  freedAt: number
  pauseMs: number
  /** The last time at which this process published for the tenant, or found notifications of it left to the broker. */
  usedAt: number
}

const everyMsDefault = 5_000
/** Looks that find a queue empty, or get no answer, before its notifications are freed. */
const emptyMax = 3
/** A message overtakes another one of its priority by no more than this, ms. */
const overtakingMs = 10_000
/** Between two times that notifications of a tenant are freed, ms: doubled each time, while some are left to the broker. */
const pauseMinMs = 15_000
const pauseMaxMs = 600_000
/** The broker counts as away after this time, ms: then the due poller brings what is due, without the broker. */
const awayMs = 2_000
/** The queue of a tenant that was not used for this time is not listened to any more, ms. */
const idleMs = 600_000
/** Notifications that are freed with one statement. */
const freedMax = 1_000

export class Repair {
  readonly #options: RepairOptions
  readonly #tenants = new Map<string, Watched>()
  #awaySince: number | undefined
  #freedAwayAt = Number.NEGATIVE_INFINITY
  #isRunning = false
  #disarm = (): void => {}
  /** The instant of the next look; -Infinity while one is running. */
  #nextAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> = Promise.resolve()
  readonly counts = { repaired: 0 }

  constructor(options: RepairOptions) {
    this.#options = options
  }

  start(): void {
    this.#isRunning = true
    this.#lookAt(this.#options.clock.now())
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    this.#disarm()
    await this.#looking
  }

  /** Listens to the queue of a tenant for which something is published. */
  use(tenant: string): void {
    const now = this.#options.clock.now()
    const watched = this.#tenants.get(tenant)
    if (watched !== undefined) watched.usedAt = now
    else {
      this.#tenants.set(tenant, {
        empty: 0,
        passed: new Map(),
        freedAt: Number.NEGATIVE_INFINITY,
        pauseMs: pauseMinMs,
        usedAt: now,
      })
      this.#options.queues.consume(tenant, this.#options.prefetchOf(tenant))
    }
  }

  /** Notes that a message has come out of its queue. */
  passed({ tenant, priority, publishedAt }: OutgoingMessage): void {
    const passed = this.#tenants.get(tenant)?.passed
    passed?.set(priority, Math.max(publishedAt, passed.get(priority) ?? 0))
  }

  away(): void {
    this.#awaySince ??= this.#options.clock.now()
    // A connection that is lost again and again puts no look off.
    const countsAt = this.#awaySince + awayMs
    if (countsAt < this.#nextAt) this.#lookAt(countsAt)
  }

  back(): void {
    this.#awaySince = undefined
  }

  get awaySince(): number | undefined {
    return this.#awaySince
  }

  get tenants(): number {
    return this.#tenants.size
  }

  /** The queue of a tenant was missing: every message in it was lost. */
  made(tenant: string): void {
    const { clock, onError } = this.#options
    this.#free(tenant, clock.now()).catch((error) => onError('repair the queue of a tenant', error))
  }

  #lookAt(at: number): void {
    this.#disarm()
    if (!this.#isRunning) return
    this.#nextAt = at
    this.#disarm = this.#options.clock.at(at, () => {
      this.#nextAt = Number.NEGATIVE_INFINITY
      this.#looking = this.#look()
    })
  }

  async #look(): Promise<void> {
    const { queues, left, members, clock, onError, everyMs = everyMsDefault } = this.#options
    const now = clock.now()
    try {
      const leads = members.holds('outgoing')
      const found = await left.tenants()
      for (const tenant of found) this.use(tenant)
      const isAway = this.#awaySince !== undefined && now - this.#awaySince >= awayMs
      if (leads && isAway) await this.#freeAll(found, now)
      else if (leads) await this.#repairAll(found, now)
      if (queues.isOpen())
        for (const [tenant, { usedAt }] of this.#tenants) if (usedAt < now - idleMs) this.#forget(tenant)
      for (const [tenant, watched] of this.#tenants)
        if (!found.includes(tenant)) Object.assign(watched, { empty: 0, pauseMs: pauseMinMs })
    } catch (error) {
      onError('look for what is left to the broker', error)
    }
    const countsAt = this.#awaySince === undefined ? now : this.#awaySince + awayMs
    this.#lookAt(countsAt > now ? Math.min(countsAt, now + everyMs) : clock.now() + everyMs)
  }

  /** Frees everything while the broker is away: the due poller brings it. */
  async #freeAll(tenants: readonly string[], now: number): Promise<void> {
    // Where other processes reach the broker, what is freed comes back: not again and again.
    if (now - this.#freedAwayAt < overtakingMs) return
    if (tenants.length > 0) this.#freedAwayAt = now
    for (const tenant of tenants) await this.#free(tenant, now)
  }

  async #repairAll(tenants: readonly string[], now: number): Promise<void> {
    const { queues, onError } = this.#options
    let answers = true
    for (const tenant of tenants) {
      let ready = 0
      // Behind a look without an answer the others are not waited for.
      if (answers)
        try {
          ready = (await queues.look(tenant)).ready
        } catch (error) {
          answers = false
          onError('look at the queue of a tenant', error)
        }
      await this.#repair(tenant, this.#tenants.get(tenant)!, now, ready)
    }
  }

  async #repair(tenant: string, watched: Watched, now: number, ready: number): Promise<void> {
    const { waiting } = this.#options
    watched.empty = ready === 0 && waiting(tenant) === 0 ? watched.empty + 1 : 0
    if (now - watched.freedAt < watched.pauseMs) return
    let freed = 0
    if (watched.empty >= emptyMax) freed = await this.#free(tenant, now - overtakingMs)
    else
      for (const priority of priorities) {
        const passed = watched.passed.get(priority)
        if (passed !== undefined && passed > watched.freedAt + overtakingMs)
          freed += await this.#free(tenant, passed - overtakingMs, priority)
      }
    if (freed === 0) return
    watched.freedAt = now
    watched.pauseMs = Math.min(2 * watched.pauseMs, pauseMaxMs)
    watched.empty = 0
  }

  async #free(tenant: string, dueBy: number, priority?: Priority): Promise<number> {
    let total = 0
    for (let freed = freedMax; freed === freedMax; total += freed)
      freed = await this.#options.left.free({
        tenant,
        dueBy,
        limit: freedMax,
        ...(priority === undefined ? {} : { priority }),
      })
    this.counts.repaired += total
    if (total > 0) this.#options.onFreed()
    return total
  }

  #forget(tenant: string): void {
    this.#tenants.delete(tenant)
    this.#options.queues.release(tenant)
  }
}
