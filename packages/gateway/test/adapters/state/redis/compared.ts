/** The kinds of state in Redis that are compared with the same in memory, one world of random operations at a time. */
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { compareLimits } from './limits-differential.ts'
import { compareOnce } from './once-differential.ts'
import type { stateAt } from './open.ts'
import { compareRooms } from './room-differential.ts'
import { compareThrottles } from './throttle-differential.ts'

/** One world: its seed, its number of operations, and the Redis that it works on. */
export interface ComparedWorld {
  readonly seed: number
  readonly operations: number
  /** The beginning of the keys of all worlds. */
  readonly prefix: string
  /** Opens a state, which is closed when the world is compared. */
  readonly open: (options: NonNullable<Parameters<typeof stateAt>[1]>) => RedisState
  /** Removes keys of one subject, as a loss of them does. */
  readonly remove: (...keys: readonly string[]) => Promise<void>
}

// One numbering for all processes, as a fleet has.
const registrations = createMemoryRegistrations()

/** Each runs one world and returns the number of operations that were compared; it throws at the first difference. */
export const comparisons = {
  limits: ({ seed, operations, prefix, open, remove }: ComparedWorld) =>
    compareLimits({
      seed,
      operations,
      open: (world, clock) => open({ prefix: prefix + world, registrations, clock }),
      lose: (world, key) =>
        remove(...['', ':about', ':waiting', ':prints'].map((part) => `${prefix}${world}{l/${key}}${part}`)),
    }),
  throttle: ({ seed, operations, prefix, open, remove }: ComparedWorld) =>
    compareThrottles({
      seed,
      operations,
      open: (world, clock) => open({ prefix: prefix + world, clock }),
      lose: (world) => remove(`${prefix}${world}{T/acme}:throttle`),
    }),
  room: ({ seed, operations, prefix, open, remove }: ComparedWorld) =>
    compareRooms({
      seed,
      operations,
      open: (world, clock) => open({ prefix: prefix + world, registrations, clock }),
      lose: (world, tenant) => remove(`${prefix}${world}{T/${tenant}}:room`),
    }),
  once: ({ seed, operations, prefix, open }: ComparedWorld) =>
    compareOnce({ seed, operations, open: (world) => open({ prefix: prefix + world, registrations }) }),
} satisfies Readonly<Record<string, (world: ComparedWorld) => Promise<number>>>

export type ComparedState = keyof typeof comparisons

export const operationsPerWorld = 250
