/** The limits of recipients in Redis answer as those in memory do. */
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import { exerciseDifference } from './differential.ts'
import { compareLimits } from './limits-differential.ts'

// One numbering for all processes, as a fleet has.
const registrations = createMemoryRegistrations()

exerciseDifference(
  'answers as the limits in memory, whatever is asked',
  500,
  ({ seed, operations, prefix, open, remove }) =>
    compareLimits({
      seed,
      operations,
      open: (world, clock) => open({ prefix: prefix + world, registrations, clock }),
      lose: (world, key) =>
        remove(...['', ':about', ':waiting', ':prints'].map((part) => `${prefix}${world}{l/${key}}${part}`)),
    }),
)
