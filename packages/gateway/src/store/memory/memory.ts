/**
 * Stores in memory: one of a single process, and a record that several processes share, each with a store of its own
 * (memory-fleet.ts). The latter is the model of an engine across a network, for the simulator and for the conformance
 * suite of several members.
 */

import { delayingLimit, type Notification } from '../../model.ts'
import { entriesOf, type LogRecord, type Outbox, type OutboxRow } from '../../ports/delivery-log.ts'
import type { TemplatesOnRecord } from '../../ports/fleet.ts'
import type { TenantRecords } from '../../ports/tenants.ts'
import type { Change, Clock, CommitResult, Store, TenantGeneration } from '../../ports.ts'
import { countedAt } from '../admission.ts'
import { erasureRecord, logRecordsOf } from '../log-records.ts'
import type { MemoryFleet, MemoryMember } from './memory-fleet.ts'
import { MemoryStore } from './memory-store.ts'

export function createMemoryStore(): Store {
  return new MemoryStore(undefined)
}

/** Creates a store that keeps changes of state in an outbox for the delivery log. */
export function createLoggedMemoryStore(clock: Pick<Clock, 'now'>): Store {
  const store = new MemoryStore(undefined)
  const outbox = new MemoryOutbox()
  const { erase } = store
  const commit = store.commit.bind(store)
  return Object.assign(store, {
    outbox,
    async commit(change: Change): Promise<CommitResult> {
      const result = await commit(change)
      if (result.applied) outbox.put(logRecordsOf(change))
      return result
    },
    async erase(tenant: string, recipient: string) {
      const result = await erase(tenant, recipient)
      if (result.done) outbox.put([erasureRecord(tenant, recipient, clock.now())])
      return result
    },
  })
}

export interface MemoryRecord {
  /** Opens the record for a process of this name, which no other one has or has had. */
  open(member: string): Store
  /** Declares a process dead: from now on the record takes nothing from it, and the others take over what it held. */
  declareDead(member: string): void
  /** Folds what a dead process has on record, once nothing is held by it; false while something is. */
  settleDead(member: string): boolean
  /** Gives a state its next generation: what was decided in an earlier one is refused from now on. */
  nextGeneration(tenant: string, state: TenantGeneration['state']): number
  /** The record from which lost limiter state is filled. */
  readonly records: TenantRecords
  /** Restarts the engine after a crash: claims that it had not written are lost, and nothing else. */
  crash(): void
}

/** @param rightMs how long a right to send lasts */
export function createMemoryRecord(rightMs: number): MemoryRecord {
  const store = new MemoryStore(rightMs)
  const fleet = store.fleet!
  const members = new Map<string, MemoryMember>()
  return {
    open(id) {
      const member: MemoryMember = { id, claimedUntil: Number.NEGATIVE_INFINITY, state: 'alive' }
      members.set(id, member)
      const templates = createMemoryTemplates(member, members)
      return new Proxy(store, {
        get(target, property) {
          const own = Reflect.get(templates, property) as unknown
          if (own !== undefined) return own
          const value = Reflect.get(target, property, target) as unknown
          if (typeof value !== 'function') return value
          return (...args: readonly unknown[]) => target.as(member, () => Reflect.apply(value, target, args))
        },
      })
    },
    nextGeneration: (tenant, state) => fleet.nextGeneration(tenant, state),
    records: createMemoryTenantRecords({ fleet, rows: store.rows }),
    settleDead(id) {
      const member = members.get(id)
      return member !== undefined && fleet.settleDead(member)
    },
    crash() {
      for (const { member, name } of fleet.unflushed()) {
        const row = store.rows.get(name.tenant)!.get(name.id)!
        store.as(member, () => store.giveBack([row]))
      }
      fleet.flush()
    },
    declareDead(id) {
      const member = members.get(id)
      if (member !== undefined) member.state = 'dead'
    },
  }
}

function createMemoryTemplates(
  own: MemoryMember,
  members: ReadonlyMap<string, MemoryMember>,
): Required<TemplatesOnRecord> {
  return Object.assign(Object.create(null), {
    async tellTemplates(keys: readonly string[]) {
      own.templates = new Set(keys)
    },
    async templatesOfOthers(keys: readonly string[]) {
      const others = [...members.values()].filter((each) => each !== own && each.state === 'alive')
      return keys.filter((key) => others.some(({ templates }) => templates?.has(key) ?? true))
    },
  })
}

/** Keeps the outbox of the delivery log. */
class MemoryOutbox implements Outbox {
  readonly #rows = new Map<number, OutboxRow>()
  #last = 0

  put(records: readonly LogRecord[]): void {
    if (records.length === 0) return
    this.#last += 1
    const entries = records.reduce((sum, record) => sum + entriesOf(record), 0)
    this.#rows.set(this.#last, { position: this.#last, entries, records })
  }

  async read(limit: number): Promise<readonly OutboxRow[]> {
    const found: OutboxRow[] = []
    let entries = 0
    for (const row of this.#rows.values()) {
      if (entries >= limit) break
      found.push(row)
      entries += row.entries
    }
    return found
  }

  async remove(positions: readonly number[]): Promise<void> {
    for (const position of positions) this.#rows.delete(position)
  }

  async size(): Promise<number> {
    return [...this.#rows.values()].reduce((sum, { entries }) => sum + entries, 0)
  }
}

interface MemoryTenantRecordsOptions {
  readonly fleet: MemoryFleet
  /** Notifications by tenant, then by id in the order of their acceptance. */
  readonly rows: ReadonlyMap<string, ReadonlyMap<string, Notification>>
}

/** Reads from a record in memory what lost limiter state is filled from. Each method reads one snapshot. */
function createMemoryTenantRecords(options: MemoryTenantRecordsOptions): TenantRecords {
  const { fleet, rows } = options
  const rowsOf = (tenant: string): readonly Notification[] => [...(rows.get(tenant)?.values() ?? [])]
  const waits = (row: Notification): boolean => delayingLimit(row) !== undefined
  return {
    nextThrottleGeneration: async (tenant) => fleet.nextGeneration(tenant, 'throttle'),
    nextRoomGeneration: async (tenant) => fleet.nextGeneration(tenant, 'room'),
    generations: async (tenant) => ({
      throttle: fleet.generationOf(tenant, 'throttle'),
      room: fleet.generationOf(tenant, 'room'),
    }),
    async entries(tenant, since) {
      // Items of a digest were counted when they were accepted, so the notification that it became is left out.
      const entries = rowsOf(tenant).filter(({ actors }) => actors === undefined)
      const counted = entries.flatMap((row) => {
        const at = waits(row) ? undefined : countedAt(row)
        if (at === undefined || at < since) return []
        return [{ module: row.module, at, isCritical: row.priority === 'critical' }]
      })
      const waiting = entries.filter(waits).map(({ id, module, decision, dueAt }) => ({
        id,
        module,
        at: decision.at ?? dueAt,
        dueAt,
      }))
      return { counted, waiting }
    },
    async waitingTenants() {
      return [...rows.keys()].filter((tenant) => rowsOf(tenant).some(waits))
    },
    tallies: async (tenant) => fleet.usesOf(tenant),
  }
}
