/** Hints over a real Redis and a real Cluster. Alone, because it ends every connection of the server. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createRedisNotifier } from '../../../../src/adapters/state/redis/redis-notifier.ts'
import { exerciseNotifier } from '../../../../src/conformance/notifier.ts'
import type { Hint } from '../../../../src/notifier-port.ts'
import { newPrefix } from './open.ts'

const engines = {
  redis: [process.env.SLUICE_TEST_REDIS ?? ''],
  'redis-cluster': (process.env.SLUICE_TEST_REDIS_CLUSTER ?? '').split(','),
}

async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + 10_000
  while (!condition()) {
    assert.ok(performance.now() < end, 'it does not come true')
    await sleep(2)
  }
}

for (const [engine, urls] of Object.entries(engines))
  describe(`hints over ${engine}`, needs(engine), () => {
    exerciseNotifier(
      `Hints over ${engine}`,
      () => {
        const prefix = newPrefix()
        let members = 0
        return {
          join() {
            members += 1
            // Each at another node of a cluster.
            const own = urls.map((_, n) => urls[(n + members) % urls.length]!)
            return createRedisNotifier({ urls: own, member: String(members), prefix })
          },
          close: async () => {},
        }
      },
      until,
    )
  })

test(
  'hears again after its connection was lost, and misses only what was told meanwhile',
  needs('redis'),
  async (t) => {
    const prefix = newPrefix()
    const join = async (member: string) => {
      const notifier = await createRedisNotifier({ urls: engines.redis, member, prefix })
      t.after(notifier.close)
      const heard: Hint[] = []
      notifier.listen((hint) => heard.push(hint))
      return { notifier, heard }
    }
    const [a, b] = [await join('a'), await join('b')]
    a.notifier.tell({ topic: 'holds' })
    await until(() => b.heard.length === 1)
    const control = createClient({ url: engines.redis[0]! })
    await control.connect()
    t.after(() => control.destroy())
    for (const kind of ['NORMAL', 'PUBSUB']) await control.sendCommand(['CLIENT', 'KILL', 'TYPE', kind])
    a.notifier.tell({ topic: 'holds' })
    const before = b.heard.length
    const end = performance.now() + 10_000
    while (b.heard.length === before) {
      assert.ok(performance.now() < end, 'it hears nothing any more')
      a.notifier.tell({ topic: 'recipient', tenant: 'acme', recipient: 'ada' })
      await sleep(20)
    }
  },
)
