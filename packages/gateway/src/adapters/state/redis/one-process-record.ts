/**
 * The record of a process that has its store for itself, as limits in a server need it. Such a server may lose what it has
 * counted at any moment, and is filled from the record then. So two things stand there that limits in the memory of the
 * process do without:
 *
 * - Which notifications this process may be sending: one with the right to send is read as `sending` until its next move is
 *   on record, and a fill counts it as sent. Its call may be on its way, and its count lost.
 * - Generations of the throttle queues: a fill begins the next one, and a change that was decided in an earlier one is on
 *   record before the fill reads, or is refused. Both are known to this process alone, so they are kept in memory: what a
 *   process before has left in the server bears another registration, and is unknown to this one (memory-registrations.ts).
 */
import type { TenantRecords } from '../../../ports/tenants.ts'
import type { Admission, Change, CommitResult, Conflict, Store } from '../../../ports.ts'
import type { RestoredEntry } from '../throttle/throttle-queue.ts'
import { type PassedEntry, readPassed, readWaiting } from '../throttle/throttle-record.ts'

export interface OneProcessRecord {
  readonly store: Store
  readonly records: Pick<
    TenantRecords,
    'nextThrottleGeneration' | 'generations' | 'entries' | 'waitingTenants'
  >
}

type Waiting = ReadonlyMap<string, readonly RestoredEntry[]>

/** @param store - a store of one process, as a plain object: all goes through the one that is returned */
export function createOneProcessRecord(store: Store): OneProcessRecord {
  /** Notifications with the right to send, as many as are on their way to providers. */
  const rights = new Set<string>()
  /** The rights that ended while a page was read, for each page that is being read. */
  const reading = new Set<Set<string>>()
  /** The present generation of each tenant whose queues were filled. */
  const generations = new Map<string, number>()
  /** Changes under way that bear a generation, by tenant. */
  const underWay = new Map<string, Set<Promise<unknown>>>()

  function endRights({ moves = [] }: Change): void {
    for (const { before } of moves) {
      rights.delete(before.id)
      for (const ended of reading) ended.add(before.id)
    }
  }

  const generationOf = (tenant: string): number => generations.get(tenant) ?? 0

  const conflictsOf = ({ generations: decidedIn = [] }: Change): readonly Conflict[] =>
    decidedIn.flatMap(({ tenant, state, number }) =>
      state === 'throttle' && number !== generationOf(tenant) ? [{ kind: 'generation', key: tenant }] : [],
    )

  /** Remembers a change until it is on record or refused. */
  function follow({ generations: decidedIn = [] }: Change, written: Promise<unknown>): void {
    for (const { tenant } of decidedIn) {
      const changes = underWay.get(tenant) ?? new Set()
      underWay.set(tenant, changes.add(written))
      const end = (): void => {
        changes.delete(written)
        if (changes.size === 0 && underWay.get(tenant) === changes) underWay.delete(tenant)
      }
      written.then(end, end)
    }
  }

  async function commit(change: Change): Promise<CommitResult> {
    const conflicts = conflictsOf(change)
    if (conflicts.length > 0) return { applied: false, conflicts }
    const written = store.commit(change)
    follow(change, written)
    const result = await written
    if (result.applied) endRights(change)
    return result
  }

  const isOpen = ({ status }: Admission): boolean => status === 'queued' || status === 'scheduled'

  const counted: Store['counted'] = async (query) => {
    const ended = new Set<string>()
    reading.add(ended)
    try {
      const { items, nextCursor } = await store.counted(query)
      const isSent = (of: Admission): boolean => isOpen(of) && (rights.has(of.id) || ended.has(of.id))
      return {
        items: items.map((each) => (isSent(each) ? { ...each, status: 'sending' } : each)),
        nextCursor,
      }
    } finally {
      reading.delete(ended)
    }
  }

  const begin: Store['begin'] = (requests) => {
    for (const { notification } of requests) rights.add(notification.id)
    return store.begin(requests)
  }

  let next: Promise<Waiting> | undefined
  let last: Promise<unknown> = Promise.resolve()

  /**
   * Reads what waits of all tenants. All who ask while it is being read share the next reading: after a loss each tenant is
   * filled, and each reading is of them all.
   */
  function waitingNow(): Promise<Waiting> {
    if (next === undefined) {
      next = last.then(() => {
        next = undefined
        return readWaiting(store)
      })
      // It keeps nothing of what was read.
      const end = (): void => {}
      last = next.then(end, end)
    }
    return next
  }

  /** Ends the rights also where the answer of a commit was lost. */
  const isApplied: Store['isApplied'] = async (change) => {
    const is = await store.isApplied(change)
    if (is) endRights(change)
    return is
  }

  return {
    store: { ...store, begin, commit, counted, isApplied },
    records: {
      async nextThrottleGeneration(tenant) {
        const number = generationOf(tenant) + 1
        generations.set(tenant, number)
        await Promise.allSettled(underWay.get(tenant) ?? [])
        return number
      },
      generations: async (tenant) => ({ throttle: generationOf(tenant), room: 0 }),
      async entries(tenant, since) {
        // In two readings, for no turn is written between them: all of earlier generations are on record or refused, and
        // nothing was decided in this one yet.
        const waiting = (await waitingNow()).get(tenant) ?? []
        const counted: PassedEntry[] = []
        for await (const passed of readPassed(store, tenant, since)) counted.push(...passed)
        return { counted, waiting }
      },
      waitingTenants: async () => [...(await waitingNow()).keys()],
    },
  }
}
