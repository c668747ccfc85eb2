/**
 * Compares requests in progress in Redis with those in memory: several processes begin and end requests with the same keys,
 * and all of them are one process in memory.
 */
import assert from 'node:assert/strict'
import { seededRandom } from '@sluice/limits-conformance'
import { createMemoryOnce } from '../../../../src/adapters/one-process.ts'
import { createRedisOnce } from '../../../../src/adapters/state/redis/redis-once.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import type { Once, OnceKey } from '../../../../src/ports/fleet.ts'

export interface OnceDifferentialOptions {
  readonly seed: number
  readonly operations: number
  /** Opens the state with the keys of the world. */
  readonly open: (world: string) => RedisState
}

/** Runs one world; returns the number of operations that were compared. */
export async function compareOnce({ seed, operations, open }: OnceDifferentialOptions): Promise<number> {
  const random = seededRandom(seed)
  const memory = createMemoryOnce()
  // On one connection: the end of a request is not awaited, and the next question comes behind it.
  const redis = open(`w${seed}:`)
  const fleet = ['m1', 'm2', 'm3'].map((member) => createRedisOnce({ redis, member }))
  const keyOf = (): OnceKey => ({
    tenant: random.pick(['a', 'ab']),
    module: random.pick(['b', 'bc']),
    method: 'POST',
    path: random.pick(['/notifications', '/jobs']),
    key: random.pick(['c', 'k1']),
  })
  /** Requests in progress, and the process that works on each. */
  const working: { readonly key: OnceKey; readonly once: Once }[] = []

  let compared = 0
  for (; compared < operations; compared += 1) {
    if (random.below(100) < 60 || working.length === 0) {
      const [key, once, hash] = [keyOf(), random.pick(fleet), random.pick(['x', 'y'])]
      const expected = await memory.begin(key, hash)
      const answer = await once.begin(key, hash)
      assert.equal(answer, expected, `begin, seed ${seed}`)
      if (answer === 'new') working.push({ key, once })
    } else {
      const [ended] = working.splice(random.below(working.length), 1)
      await memory.end(ended!.key)
      await ended!.once.end(ended!.key)
    }
  }
  for (const { key, once } of working) await once.end(key)
  for (const once of fleet) once.close()
  return compared
}
