/**
 * Reads from the store what throttle queues are restored from: what has passed within their windows, and what waits in
 * them.
 */
import type { Store } from '../../../ports.ts'
import type { Counted, RestoredEntry } from './throttle-queue.ts'

/** An entry that has passed. */
export interface PassedEntry extends Counted {
  readonly id: string
  readonly isCritical: boolean
}

/** Rows read at once. */
const pageMax = 1_000

/** Reads the entries of a tenant that have passed since, page by page in the order of acceptance. */
export async function* readPassed(
  store: Pick<Store, 'counted'>,
  tenant: string,
  since: number,
): AsyncGenerator<readonly PassedEntry[]> {
  // All pages: a bound on their number would let as many pass again.
  for (let cursor: string | undefined; ; ) {
    const { items, nextCursor } = await store.counted({
      tenant,
      since,
      accepted: true,
      limit: pageMax,
      ...(cursor === undefined ? {} : { cursor }),
    })
    yield items.flatMap(({ id, module, priority, actors, countedAt: at }) => {
      // Items of a digest were counted when they were accepted.
      if (at === undefined || at < since || actors !== undefined) return []
      return [{ id, module, at, isCritical: priority === 'critical' }]
    })
    if (nextCursor === null) return
    cursor = nextCursor
  }
}

/** Reads the entries that wait of all tenants, of each in the order of acceptance. */
export async function readWaiting(
  store: Pick<Store, 'inThrottleQueue'>,
): Promise<ReadonlyMap<string, readonly RestoredEntry[]>> {
  const byTenant = new Map<string, RestoredEntry[]>()
  let after: string | undefined
  do {
    const page = await store.inThrottleQueue({ limit: pageMax, ...(after === undefined ? {} : { after }) })
    for (const { id, tenant, module, dueAt, promisedAt = dueAt } of page) {
      const waiting = byTenant.get(tenant) ?? []
      waiting.push({ id, module, at: promisedAt, dueAt })
      byTenant.set(tenant, waiting)
    }
    after = page.length < pageMax ? undefined : page.at(-1)!.id
  } while (after !== undefined)
  return byTenant
}
