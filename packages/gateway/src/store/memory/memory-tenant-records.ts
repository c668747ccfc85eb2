/** Reads from a record in memory what lost limiter state is filled from. Each method reads one snapshot. */
import { delayingLimit, type Notification } from '../../model.ts'
import type { TenantRecords } from '../../ports/tenants.ts'
import { countedAt } from '../admission.ts'
import type { MemoryFleet } from './memory-fleet.ts'

export interface MemoryTenantRecordsOptions {
  readonly fleet: MemoryFleet
  /** Notifications by tenant, then by id in the order of their acceptance. */
  readonly rows: ReadonlyMap<string, ReadonlyMap<string, Notification>>
}

export function createMemoryTenantRecords(options: MemoryTenantRecordsOptions): TenantRecords {
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
