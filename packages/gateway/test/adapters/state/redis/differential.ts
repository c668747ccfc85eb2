/**
 * Compares state in Redis with the same in memory, on each engine: random operations in worlds beside each other, so that
 * the round trips of one are spent on the others. SLUICE_OPERATIONS says how many, SLUICE_SEED gives the first seed.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { describe, it } from 'node:test'
import { seedOfRun } from '@sluice/limits-conformance'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { engines, newPrefix, openAdmin, openRedis } from './open.ts'

/** One world: its seed, its number of operations, and the Redis that it works on. */
export interface ComparedWorld {
  readonly seed: number
  readonly operations: number
  /** The beginning of the keys of all worlds. */
  readonly prefix: string
  /** Opens a state, which is closed when the world is compared. */
  readonly open: (options: Parameters<typeof openRedis>[1]) => RedisState
  /** Removes keys of one subject, as a loss of them does. */
  readonly remove: (...keys: readonly string[]) => Promise<void>
}

const operationsPerWorld = 250
const worldsTogether = 8
/** Operations between two lines that tell how far it is. */
const tellEvery = 20_000

/**
 * Registers the comparison with node:test, once for each engine.
 *
 * @param usual - the number of operations where SLUICE_OPERATIONS is not set
 * @param compare - compares one world and returns the number of operations that it has compared
 */
export function exerciseDifference(
  title: string,
  usual: number,
  compare: (world: ComparedWorld) => Promise<number>,
): void {
  const operations = Number(process.env.SLUICE_OPERATIONS ?? usual)
  for (const engine of engines)
    describe(`on ${engine}`, needs(engine), () => {
      it(title, { timeout: 4 * 3_600_000 }, async (t) => {
        const prefix = newPrefix()
        const { remove, close } = await openAdmin(engine)
        t.after(close)
        let seed = seedOfRun()
        let compared = 0
        let told = 0
        t.diagnostic(`first seed ${seed}`)
        const startMs = performance.now()
        const worlds = async (): Promise<void> => {
          while (compared < operations) {
            seed += 1
            const opened: RedisState[] = []
            const open: ComparedWorld['open'] = (options) => {
              const redis = openRedis(engine, { isVirtual: true, ...options })
              opened.push(redis)
              return redis
            }
            const added = await compare({ seed, operations: operationsPerWorld, prefix, open, remove })
            compared += added
            for (const redis of opened) redis.close()
            if (compared < told + tellEvery) continue
            told = compared
            console.log(`${engine}: ${compared} operations compared`)
          }
        }
        await Promise.all(Array.from({ length: worldsTogether }, worlds))
        t.diagnostic(`${compared} operations compared in ${Math.round(performance.now() - startMs)} ms`)
        assert.ok(compared >= operations)
      })
    })
}
