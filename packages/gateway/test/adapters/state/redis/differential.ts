/**
 * Compares state in Redis with the same in memory, on each engine: random operations in worlds beside each other, so that
 * the round trips of one are spent on the others. SLUICE_OPERATIONS says how many, SLUICE_SEED gives the first seed;
 * `npm run check:fleet -- --only differentials` runs a million.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { describe, it } from 'node:test'
import { seedOfRun } from '@sluice/limits-conformance'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { type ComparedState, operationsPerWorld } from './compared.ts'
import { engines, newPrefix } from './open.ts'
import { openWorlds } from './worlds.ts'

const worldsTogether = 8

/**
 * Registers the comparison with node:test, once for each engine.
 *
 * @param usual - the number of operations where SLUICE_OPERATIONS is not set
 */
export function exerciseDifference(title: string, usual: number, state: ComparedState): void {
  const operations = Number(process.env.SLUICE_OPERATIONS ?? usual)
  for (const engine of engines)
    describe(`on ${engine}`, needs(engine), () => {
      it(title, async (t) => {
        const { compare, close } = await openWorlds(engine, newPrefix())
        t.after(close)
        let seed = seedOfRun()
        let compared = 0
        t.diagnostic(`first seed ${seed}`)
        const worlds = async (): Promise<void> => {
          while (compared < operations) {
            seed += 1
            compared += await compare(state, seed - 1, operationsPerWorld)
          }
        }
        // Each begins a world: more at once than are wanted would compare more than was asked for.
        const together = Math.min(worldsTogether, Math.ceil(operations / operationsPerWorld))
        await Promise.all(Array.from({ length: together }, worlds))
        t.diagnostic(`${compared} operations compared`)
        assert.ok(compared >= operations)
      })
    })
}
