/**
 * Throttle queues in Redis answer as those in memory do: some thousand random operations, or as many as SLUICE_OPERATIONS
 * says, for each engine; SLUICE_SEED gives another first seed.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { describe, it } from 'node:test'
import { createClient, createCluster } from '@redis/client'
import { seedOfRun } from '@sluice/limits-conformance'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { type Engine, engines, newPrefix, openRedis } from './open.ts'
import { compareThrottles } from './throttle-differential.ts'

const operations = Number(process.env.SLUICE_OPERATIONS ?? 2_000)
const operationsPerWorld = 250
/** Worlds beside each other: the round trips of one are spent on the others. */
const together = 8

for (const engine of engines)
  describe(`on ${engine}`, needs(engine), () => {
    it('answers as the queues in memory, whatever is asked', { timeout: 4 * 3_600_000 }, async (t) => {
      const prefix = newPrefix()
      const remove = await remover(engine)
      t.after(remove.close)
      let seed = seedOfRun()
      let compared = 0
      let told = 0
      t.diagnostic(`first seed ${seed}`)
      const startMs = performance.now()
      const worlds = async (): Promise<void> => {
        while (compared < operations) {
          seed += 1
          const opened: ReturnType<typeof openRedis>[] = []
          const added = await compareThrottles({
            seed,
            operations: operationsPerWorld,
            open(world, clock) {
              const redis = openRedis(engine, { prefix: prefix + world, clock, isVirtual: true })
              opened.push(redis)
              return redis
            },
            lose: (world) => remove.keys(`${prefix}${world}{T/acme}:throttle`),
          })
          compared += added
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

/** Removes keys, as a loss of them does. */
async function remover(engine: Engine) {
  const [url = '', ...others] = urls(engine)
  const client =
    engine === 'redis'
      ? await createClient({ url }).connect()
      : await createCluster({ rootNodes: [url, ...others].map((each) => ({ url: each })) }).connect()
  return {
    close: () => client.destroy(),
    async keys(key: string): Promise<void> {
      await client.del(key)
    },
  }
}

function urls(engine: Engine): string[] {
  const { SLUICE_TEST_REDIS = '', SLUICE_TEST_REDIS_CLUSTER = '' } = process.env
  return (engine === 'redis' ? SLUICE_TEST_REDIS : SLUICE_TEST_REDIS_CLUSTER).split(',')
}
