/** The record of one tenant's throttle queues, as a store keeps it: what has passed, what waits, and their generation. */
import type { ThrottleRecord } from '../../../../src/adapters/state/redis/redis-throttle.ts'
import type { ThrottleEntries } from '../../../../src/adapters/state/redis/throttle-fill.ts'
import type { RestoredEntry } from '../../../../src/adapters/state/throttle/throttle-queue.ts'

interface Passed {
  readonly id: string
  readonly module: string
  readonly at: number
  readonly isCritical: boolean
}

export interface ThrottleModel extends ThrottleRecord {
  readonly tenant: string
  generation: number
  readonly passed: Map<string, Passed>
  /** In the order of acceptance. */
  readonly waits: Map<string, RestoredEntry>
}

/** `pause` lets the world go on between two steps of the record. @defaultValue none */
export function createThrottleRecord(
  tenant: string,
  pause: () => Promise<unknown> = () => Promise.resolve(),
): ThrottleModel {
  const model: ThrottleModel = {
    tenant,
    generation: 0,
    passed: new Map(),
    waits: new Map(),
    async nextThrottleGeneration() {
      await pause()
      model.generation += 1
      const { generation } = model
      await pause()
      return generation
    },
    async entries(_, since): Promise<ThrottleEntries> {
      await pause()
      const counted = [...model.passed.values()].filter(({ at }) => at >= since)
      const waiting = [...model.waits.values()]
      await pause()
      return { counted, waiting }
    },
    waitingTenants: async () => (model.waits.size > 0 ? [tenant] : []),
  }
  return model
}
