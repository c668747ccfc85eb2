/**
 * The limits of recipients in Redis answer as those in memory do: some hundred random operations, or as many as
 * SLUICE_OPERATIONS says, for each engine; SLUICE_SEED gives another first seed.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { describe, it } from 'node:test'
import { seedOfRun } from '@sluice/limits-conformance'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import { compareLimits } from './limits-differential.ts'
import { engines, newPrefix, openAdmin, openRedis } from './open.ts'

const operations = Number(process.env.SLUICE_OPERATIONS ?? 500)
const operationsPerWorld = 250
/** Worlds beside each other: the round trips of one are spent on the others. */
const together = 8

for (const engine of engines)
  describe(`on ${engine}`, needs(engine), () => {
    it('answers as the limits in memory, whatever is asked', { timeout: 4 * 3_600_000 }, async (t) => {
      const prefix = newPrefix()
      // One numbering for all processes, as a fleet has.
      const registrations = createMemoryRegistrations()
      const admin = await openAdmin(engine)
      t.after(admin.close)
      let seed = seedOfRun()
      let compared = 0
      let told = 0
      t.diagnostic(`first seed ${seed}`)
      const startMs = performance.now()
      const worlds = async (): Promise<void> => {
        while (compared < operations) {
          seed += 1
          const opened: ReturnType<typeof openRedis>[] = []
          compared += await compareLimits({
            seed,
            operations: operationsPerWorld,
            open(world, clock) {
              const redis = openRedis(engine, {
                prefix: prefix + world,
                registrations,
                clock,
                isVirtual: true,
              })
              opened.push(redis)
              return redis
            },
            lose: (world, key) =>
              admin.remove(
                ...['', ':about', ':waiting', ':prints'].map((part) => `${prefix}${world}{l/${key}}${part}`),
              ),
          })
          for (const redis of opened) redis.close()
          if (compared < told + 20_000) continue
          told = compared
          console.log(`${engine}: ${compared} operations compared`)
        }
      }
      await Promise.all(Array.from({ length: together }, worlds))
      t.diagnostic(`${compared} operations compared in ${Math.round(performance.now() - startMs)} ms`)
      assert.ok(compared >= operations)
    })
  })
