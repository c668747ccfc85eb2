/**
 * Stores in memory: one of a single process, and a record that several processes share, each with a store of its own
 * (memory-fleet.ts). The latter is the model of an engine across a network, for the simulator and for the conformance
 * suite of several members.
 */

import type { TenantRecords } from '../../ports/tenants.ts'
import type { Change, Clock, CommitResult, Store, TenantGeneration } from '../../ports.ts'
import { erasureRecord, logRecordsOf } from '../log-records.ts'
import type { MemoryMember } from './memory-fleet.ts'
import { MemoryOutbox } from './memory-outbox.ts'
import { MemoryStore } from './memory-store.ts'
import { createMemoryTenantRecords } from './memory-tenant-records.ts'

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
      return new Proxy(store, {
        get(target, property) {
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
        void store.as(member, () => store.releaseDue([row]))
      }
      fleet.flush()
    },
    declareDead(id) {
      const member = members.get(id)
      if (member !== undefined) member.state = 'dead'
    },
  }
}
