/**
 * The port of the record from which the limits of tenants and their room are filled when the state that holds them is
 * lost. A generation comes first: changes of an earlier one are on record by then, or are refused.
 */
import type { TenantGeneration } from './ports.ts'
import type { Occupancy } from './room-port.ts'

/** An entry on record that counts in the limits of its tenant and module. */
interface CountedEntry {
  readonly module: string
  /** The instant at which it counts, epoch ms. */
  readonly at: number
  readonly isCritical: boolean
}

/** An entry on record that waits in the throttle queue of its tenant. */
interface WaitingEntry {
  readonly id: string
  readonly module: string
  /** The place that it was promised, epoch ms. */
  readonly at: number
  readonly dueAt: number
}

export interface TenantRecords {
  /**
   * Gives the throttle queues of a tenant their next generation. Returns when every change of an earlier one is on
   * record or refused. Rejects with STORE_UNAVAILABLE, as all of these.
   */
  nextThrottleGeneration(tenant: string): Promise<number>
  /** Reads the entries that have passed since, and those that wait in the order of acceptance, in one snapshot. */
  entries(
    tenant: string,
    since: number,
  ): Promise<{ readonly counted: readonly CountedEntry[]; readonly waiting: readonly WaitingEntry[] }>
  /** Names the tenants that have waiting entries. */
  waitingTenants(): Promise<readonly string[]>
  /** Reads the present generations of a tenant's state; 0 of a state that was never filled. */
  generations(tenant: string): Promise<{ readonly [State in TenantGeneration['state']]: number }>
  /** Gives the room of a tenant its next generation. */
  nextRoomGeneration(tenant: string): Promise<number>
  /** Reads what each member has on record; a member of its own stands for those that have ended. */
  tallies(tenant: string): Promise<readonly (Occupancy & { readonly member: string })[]>
}
