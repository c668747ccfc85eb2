/**
 * Holds the throttle queues of all tenants (throttle-queue.ts) in memory. A queue is restored from the store when it is
 * first needed, one that is not empty at the start. Entries that move up are promoted at their new time, and the queue of
 * a tenant with nothing counted is dropped.
 */
import type { Window } from '@sluice/limits'
import type { Promote } from '../../../ports/tenants.ts'
import type { Clock, Store } from '../../../ports.ts'
import { type Counted, type RestoredEntry, ThrottleQueue } from './throttle-queue.ts'
import { readPassed, readWaiting } from './throttle-record.ts'

interface ThrottleRates {
  /** Windows over all modules of a tenant together; empty means unlimited. */
  readonly tenant: readonly Window[]
  /** Windows of each module. */
  readonly module: readonly Window[]
}

export interface ThrottleQueuesOptions {
  readonly store: Pick<Store, 'counted' | 'inThrottleQueue'>
  readonly clock: Clock
  readonly ratesOf: (tenant: string) => ThrottleRates
  /** Every window is kept this much longer, ms. */
  readonly marginMs: number
  readonly onError?: ((what: string, error: unknown) => void) | undefined
}

export interface ThrottleQueues {
  /** Returns the queue of a tenant, without a promise where it is in memory; undefined without limits and entries. */
  of(tenant: string): ThrottleQueue | undefined | Promise<ThrottleQueue | undefined>
  isLimited(tenant: string): boolean
  /** Rearms the promotion timer; to be called after each change of the queue. */
  rearm(tenant: string): void
  /** Restores the queues that are not empty, and begins to promote entries. */
  start(promote: Promote): Promise<void>
  stop(): Promise<void>
}

interface Entry {
  readonly queue: ThrottleQueue
  armedFor: number | undefined
  disarm: (() => void) | undefined
}

/** Number of tenants above which queues with nothing counted are dropped. */
const tenantsMax = 10_000

export function createThrottleQueues(options: ThrottleQueuesOptions): ThrottleQueues {
  const { store, clock, ratesOf, marginMs, onError } = options
  const entries = new Map<string, Entry>()
  const loading = new Map<string, Promise<ThrottleQueue>>()
  const working = new Set<Promise<void>>()
  let sweepAt = tenantsMax
  let restoring: Promise<void> | undefined
  /** Absent before the start: nothing is promoted until then. */
  let promote: Promote | undefined
  let ready = false
  let stopped = false

  /** Restores all queues that are not empty. */
  async function restoreAll(): Promise<void> {
    for (const [tenant, restored] of await readWaiting(store)) await load(tenant, restored)
    ready = true
  }

  async function load(tenant: string, restored: readonly RestoredEntry[] = []): Promise<ThrottleQueue> {
    const rates = ratesOf(tenant)
    const queue = new ThrottleQueue({ ...rates, marginMs })
    const windowMs = Math.max(0, ...[...rates.tenant, ...rates.module].map((window) => window.windowMs))
    const since = clock.now() - windowMs - marginMs
    const urgent: Counted[] = []
    // An instant stays in memory of each.
    for await (const passed of readPassed(store, tenant, since))
      for (const { module, at, isCritical } of passed)
        if (isCritical) urgent.push({ module, at })
        else queue.count(module, at)
    queue.restore(restored, urgent, clock.now())
    if (entries.size >= sweepAt) sweep()
    entries.set(tenant, { queue, armedFor: undefined, disarm: undefined })
    rearm(tenant)
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
    if (!ready) return restore().then(() => of(tenant))
    const known = entries.get(tenant)
    if (known !== undefined || !isLimited(tenant)) return known?.queue
    let queue = loading.get(tenant)
    if (queue === undefined) {
      queue = load(tenant).finally(() => loading.delete(tenant))
      loading.set(tenant, queue)
    }
    return queue
  }

  function restore(): Promise<void> {
    restoring ??= restoreAll().catch((error: unknown) => {
      restoring = undefined
      throw error
    })
    return restoring
  }

  function rearm(tenant: string): void {
    const entry = entries.get(tenant)
    if (entry === undefined) return
    const next = stopped || promote === undefined ? undefined : entry.queue.nextPromotionAt(clock.now())
    if (next === entry.armedFor) return
    entry.disarm?.()
    entry.armedFor = next
    entry.disarm = next === undefined ? undefined : clock.at(next, () => promoteDue(tenant, entry))
  }

  function promoteDue(tenant: string, entry: Entry): void {
    entry.armedFor = undefined
    entry.disarm = undefined
    const ids = entry.queue.takePromoted(clock.now())
    if (ids.length > 0) {
      const work = promote!(tenant, ids)
        .catch((error: unknown) => onError?.('promote notifications in a throttle queue', error))
        .finally(() => working.delete(work))
      working.add(work)
    }
    rearm(tenant)
  }

  return {
    of,
    isLimited,
    rearm,
    async start(startedWith) {
      promote = startedWith
      await restore()
      for (const tenant of entries.keys()) rearm(tenant)
    },
    async stop() {
      stopped = true
      for (const tenant of entries.keys()) rearm(tenant)
      while (working.size > 0) await Promise.all(working)
    },
  }
}
