/**
 * Stores in memory: one of a single process, and a record that several processes share, each with a store of its own
 * (memory-fleet.ts). The latter is the model of an engine across a network, for the simulator and for the conformance
 * suite of several members.
 */

import type { Store, TenantGeneration } from '../../ports.ts'
import type { MemoryMember } from './memory-fleet.ts'
import { MemoryStore } from './memory-store.ts'

export function createMemoryStore(): Store {
  return new MemoryStore(undefined)
}

export interface MemoryRecord {
  /** Opens the record for a process of this name, which no other one has or has had. */
  open(member: string): Store
  /** Declares a process dead: from now on the record takes nothing from it, and the others take over what it held. */
  declareDead(member: string): void
  /** Gives a state its next generation: what was decided in an earlier one is refused from now on. */
  nextGeneration(tenant: string, state: TenantGeneration['state']): number
}

/** @param rightMs how long a right to send lasts */
export function createMemoryRecord(rightMs: number): MemoryRecord {
  const store = new MemoryStore(rightMs)
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
    nextGeneration: (tenant, state) => store.nextGeneration(tenant, state),
    declareDead(id) {
      const member = members.get(id)
      if (member !== undefined) member.state = 'dead'
    },
  }
}
