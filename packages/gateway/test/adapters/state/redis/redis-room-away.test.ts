/** The room of tenants while Redis does not answer: it is that of the record, which other processes write meanwhile. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { createRedisRoom } from '../../../../src/adapters/state/redis/redis-room.ts'
import type { TenantBounds } from '../../../../src/ports/tenants.ts'
import { openRedis } from './open.ts'

const bounds: TenantBounds = { queueMax: 16, waitingMax: 10, bytesMax: 1_000 }

/**
 * Opens the room of the process `own` beside the process `other`, which have so many notifications on record.
 *
 * @param beforeAnswer - runs behind each read of the record, before its answer arrives
 */
function open(own: number, other: number, beforeAnswer: () => void = () => {}) {
  const onRecord = new Map([
    ['own', own],
    ['other', other],
  ])
  const room = createRedisRoom({
    redis: openRedis('redis', { url: 'redis://127.0.0.1:1', deadlineMs: 50 }),
    clock: createSystemClock(),
    member: 'own',
    record: {
      nextRoomGeneration: () => Promise.resolve(1),
      tallies() {
        const read = Array.from(onRecord, ([member, queue]) => ({ member, queue, waiting: 0, bytes: 0 }))
        beforeAnswer()
        return Promise.resolve(read)
      },
    },
  })
  after(() => room.close())
  room.count('acme', { queue: own })
  return {
    /** Asks for places in the queue. */
    take: (queue: number) => room.take('acme', { queue, critical: 0, waiting: 0 }, bounds),
    /** Puts so many notifications of a process on record, or takes them off; it counts its own when that is answered. */
    write(process: 'own' | 'other', by: number) {
      onRecord.set(process, onRecord.get(process)! + by)
      if (process === 'own') room.count('acme', { queue: by })
    },
  }
}

it('takes no room beside a record that was at the bound when it was read, though a notification of its own has ended since', async () => {
  const room = open(8, 8, () => {
    // A critical notification passes the bound: the record goes from 16 to 17, and back to 16.
    room.write('other', 1)
    room.write('own', -1)
  })
  assert.deepEqual(await room.take(1), { full: 'queue', used: 16 })
})

it('takes the last place on record, and none for what it has taken and not yet committed', async () => {
  const room = open(7, 8)
  const last = await room.take(1)
  assert.ok('giveBack' in last)
  assert.deepEqual(await room.take(1), { full: 'queue', used: 16 })
  last.giveBack()
  assert.ok('giveBack' in (await room.take(1)))
})
