/** The values of tenants in Redis and their record: a fill that takes its time. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseWindow } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { createRedisRoom } from '../../../../src/adapters/state/redis/redis-room.ts'
import { createRedisThrottle } from '../../../../src/adapters/state/redis/redis-throttle.ts'
import { openRedis } from './open.ts'
import { createThrottleRecord } from './throttle-record.ts'

/** Longer than a claim lasts, ms. */
const readingMs = 2_600
const clock = createSystemClock()

describe('a value of a tenant', needs('redis'), () => {
  it('is filled from a record that takes longer to read than a claim lasts', async () => {
    const redis = openRedis('redis', { deadlineMs: 500 })
    const record = createThrottleRecord('acme')
    const { entries } = record
    const throttle = createRedisThrottle({
      redis,
      record: {
        ...record,
        async entries(...asked) {
          await sleep(readingMs)
          return entries(...asked)
        },
      },
      clock,
      marginMs: 20,
      ratesOf: () => ({ tenant: [parseWindow('2/60s')], module: [] }),
    })
    await answered(async () => throttle.pass('acme', [{ id: 'a', module: 'shop' }]))
    assert.equal(record.generation, 1)

    let rooms = 0
    const room = createRedisRoom({
      redis,
      clock,
      member: 'a',
      record: {
        async nextRoomGeneration() {
          rooms += 1
          return rooms
        },
        async tallies() {
          await sleep(readingMs)
          return []
        },
      },
    })
    const bounds = { queueMax: 1, waitingMax: 1, bytesMax: 1 }
    // Room that was taken by the record has no generation.
    await answered(async () => {
      const taken = await room.take('acme', { queue: 0, critical: 0, waiting: 0 }, bounds)
      assert.ok('generation' in taken)
    })
    assert.equal(rooms, 1)
    await room.close()
  })
})

/** Asks until there is an answer. */
async function answered(ask: () => Promise<unknown>): Promise<void> {
  const endMs = performance.now() + 20_000
  for (;;)
    try {
      await ask()
      return
    } catch (error) {
      if (performance.now() > endMs) throw error
      await sleep(50)
    }
}
