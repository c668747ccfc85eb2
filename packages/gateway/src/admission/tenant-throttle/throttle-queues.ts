/**
 * The lines of all tenants (line.ts), as far as they are in memory: each is read from the record when it is first
 * needed, those in which somebody stands at the start; whoever moves up in one is called at the instant; and of whom
 * nothing is counted any more is forgotten.
 */
import type { Window } from '@sluice/limits'
import type { Clock, Store } from '../../ports.ts'
import { type Counted, type RestoredEntry, ThrottleQueue } from './throttle-queue.ts'

export interface ThrottleRates {
  /** All modules of a tenant together; none: unlimited. */
  readonly tenant: readonly Window[]
  /** Each module of it. */
  readonly module: readonly Window[]
}

export interface ThrottleQueuesOptions {
  readonly store: Pick<Store, 'admissions' | 'inThrottleQueue'>
  readonly clock: Clock
  readonly ratesOf: (tenant: string) => ThrottleRates
  /** Every window is kept this much longer, ms. */
  readonly marginMs: number
  /** Brings those to their decision whose turn has come before the instant on record. */
  readonly promote: (tenant: string, ids: readonly string[]) => Promise<void>
  readonly onError?: (what: string, error: unknown) => void
}

export interface ThrottleQueues {
  /** Undefined where there are no limits and nobody waits since there were some. At once where nothing has to be read. */
  of(tenant: string): ThrottleQueue | undefined | Promise<ThrottleQueue | undefined>
  isLimited(tenant: string): boolean
  /** To be told whenever somebody may have moved up. */
  tend(tenant: string): void
  /** Reads the lines in which somebody stands. */
  start(): Promise<void>
  stop(): Promise<void>
}

interface Entry {
  readonly queue: ThrottleQueue
  armedFor: number | undefined
  disarm: (() => void) | undefined
}

/** Rows of the record read at once. */
const pageMax = 1_000
/** Of one tenant's acceptances within the widest window so many are counted after a restart: 100 MB while they are read. */
const admissionsMax = 100_000
/** Above so many tenants those are forgotten of whom nothing is counted any more. */
const tenantsMax = 10_000

export function createThrottleQueues(options: ThrottleQueuesOptions): ThrottleQueues {
  const { store, clock, ratesOf, marginMs } = options
  const entries = new Map<string, Entry>()
  const loading = new Map<string, Promise<ThrottleQueue>>()
  const working = new Set<Promise<void>>()
  let sweepAt = tenantsMax
  let begun: Promise<void> | undefined
  let ready = false
  let stopped = false

  /** The lines in which somebody stands, of all tenants. */
  async function begin(): Promise<void> {
    const byTenant = new Map<string, RestoredEntry[]>()
    let after: string | undefined
    do {
      const page = await store.inThrottleQueue({ limit: pageMax, ...(after === undefined ? {} : { after }) })
      for (const { id, tenant, module, dueAt, promisedAt = dueAt } of page) {
        const restored = byTenant.get(tenant) ?? []
        restored.push({ id, module, at: promisedAt, dueAt })
        byTenant.set(tenant, restored)
      }
      after = page.length < pageMax ? undefined : page.at(-1)!.id
    } while (after !== undefined)
    for (const [tenant, restored] of byTenant) await load(tenant, restored)
    ready = true
  }

  async function load(tenant: string, restored: readonly RestoredEntry[] = []): Promise<ThrottleQueue> {
    const rates = ratesOf(tenant)
    const queue = new ThrottleQueue({ ...rates, marginMs })
    const windowMs = Math.max(0, ...[...rates.tenant, ...rates.module].map((window) => window.windowMs))
    const since = clock.now() - windowMs - marginMs
    const admissions = await store.admissions({ tenant, since, limit: admissionsMax })
    const urgent: Counted[] = []
    for (const { module, priority, actors, countedAt: at } of admissions) {
      // The items of a digest were counted when they were accepted.
      if (at === undefined || at < since || actors !== undefined) continue
      if (priority === 'critical') urgent.push({ module, at })
      else queue.count(module, at)
    }
    queue.restore(restored, urgent, clock.now())
    if (entries.size >= sweepAt) sweep()
    entries.set(tenant, { queue, armedFor: undefined, disarm: undefined })
    tend(tenant)
    return queue
  }

  function sweep(): void {
    const now = clock.now()
    for (const [tenant, { queue }] of entries) if (queue.isIdle(now)) entries.delete(tenant)
    sweepAt = Math.max(tenantsMax, 2 * entries.size)
  }

  function isLimited(tenant: string): boolean {
    const { tenant: together, module } = ratesOf(tenant)
    return together.length > 0 || module.length > 0
  }

  function of(tenant: string): ThrottleQueue | undefined | Promise<ThrottleQueue | undefined> {
    if (!ready) return start().then(() => of(tenant))
    const known = entries.get(tenant)
    if (known !== undefined || !isLimited(tenant)) return known?.queue
    let queue = loading.get(tenant)
    if (queue === undefined) {
      queue = load(tenant).finally(() => loading.delete(tenant))
      loading.set(tenant, queue)
    }
    return queue
  }

  function start(): Promise<void> {
    begun ??= begin().catch((error: unknown) => {
      begun = undefined
      throw error
    })
    return begun
  }

  function tend(tenant: string): void {
    const entry = entries.get(tenant)
    if (entry === undefined) return
    const next = stopped ? undefined : entry.queue.nextEarly()
    if (next === entry.armedFor) return
    entry.disarm?.()
    entry.armedFor = next
    entry.disarm = next === undefined ? undefined : clock.at(next, () => call(tenant, entry))
  }

  function call(tenant: string, entry: Entry): void {
    entry.armedFor = undefined
    entry.disarm = undefined
    const ids = entry.queue.callEarly(clock.now())
    if (ids.length > 0) {
      const work = options
        .promote(tenant, ids)
        .catch((error: unknown) => options.onError?.('call up who stands in a line', error))
        .finally(() => working.delete(work))
      working.add(work)
    }
    tend(tenant)
  }

  return {
    of,
    isLimited,
    tend,
    start,
    async stop() {
      stopped = true
      for (const tenant of entries.keys()) tend(tenant)
      while (working.size > 0) await Promise.all(working)
    },
  }
}
