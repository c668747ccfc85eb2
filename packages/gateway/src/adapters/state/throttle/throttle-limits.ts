/** The limits that a throttle queue applies, the entries that it is filled with, and its parts. */
import type { Window } from '@sluice/limits'

export interface ThrottleLimits {
  /** Windows over all modules of the tenant together; empty means unlimited. */
  readonly tenant: readonly Window[]
  /** Windows of each module. */
  readonly module: readonly Window[]
  /** Every window is kept this much longer, ms. */
  readonly marginMs: number
}

/** An entry that was in the queue before a restart. */
export interface RestoredEntry {
  readonly id: string
  readonly module: string
  /** The stored place, epoch ms. */
  readonly at: number
  /** The time when the scheduler polls it: its place, or its expiry where that is earlier. */
  readonly dueAt: number
}

/** An entry that has passed, or passes without being delayed. */
export interface Counted {
  readonly module: string
  readonly at: number
}

/** The queue of one module, and what counts for its limits. */
export interface ModuleQueue {
  /** Times of passed and waiting entries, sorted. */
  readonly log: number[]
  readonly ids: string[]
  /** Sorted; as many as `ids`. */
  readonly places: number[]
  /** The stored due time of each entry. */
  readonly dues: number[]
}
