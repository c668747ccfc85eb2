/** Worlds in which state in Redis is compared with the same in memory. */
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { type ComparedState, comparisons } from './compared.ts'
import { type Engine, openAdmin, stateAt } from './open.ts'

/** Opens an engine for worlds beside each other, whose keys begin with the prefix. */
export async function openWorlds(engine: Engine, prefix: string) {
  const { remove, close } = await openAdmin(engine)
  return {
    close,
    /** Runs one world; returns the number of operations that were compared, and throws at the first difference. */
    async compare(state: ComparedState, seed: number, operations: number): Promise<number> {
      const opened: RedisState[] = []
      const open = (options: NonNullable<Parameters<typeof stateAt>[1]>): RedisState => {
        const redis = stateAt(engine, { isVirtual: true, ...options })
        opened.push(redis)
        return redis
      }
      try {
        return await comparisons[state]({ seed, operations, prefix, open, remove })
      } finally {
        for (const redis of opened) redis.close()
      }
    },
  }
}
