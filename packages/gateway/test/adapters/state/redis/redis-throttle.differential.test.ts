/** Throttle queues in Redis answer as those in memory do. */
import { exerciseDifference } from './differential.ts'
import { compareThrottles } from './throttle-differential.ts'

exerciseDifference(
  'answers as the queues in memory, whatever is asked',
  2_000,
  ({ seed, operations, prefix, open, remove }) =>
    compareThrottles({
      seed,
      operations,
      open: (world, clock) => open({ prefix: prefix + world, clock }),
      lose: (world) => remove(`${prefix}${world}{T/acme}:throttle`),
    }),
)
