/**
 * Compares the room of tenants in Redis with that in memory: several processes take, count and give back at one room in
 * Redis, and all of that happens in one room in memory. At times everything in Redis is lost.
 */
import assert from 'node:assert/strict'
import { type Random, seededRandom } from '@sluice/limits-conformance'
import { createMemoryRoom } from '../../../../src/adapters/state/memory-room.ts'
import { createRedisRoom, type RedisRoom } from '../../../../src/adapters/state/redis/redis-room.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import type { Occupancy, Room, RoomTaken, TenantBounds } from '../../../../src/ports/tenants.ts'
import { createVirtualClock, type VirtualClock } from '../../../../src/simulation/clock.ts'

export interface RoomDifferentialOptions {
  readonly seed: number
  readonly operations: number
  /** Opens the state of one process, with the keys of the world. */
  readonly open: (world: string, clock: VirtualClock) => RedisState
  /** Forgets everything that a world has in Redis of a tenant. */
  readonly lose: (world: string, tenant: string) => Promise<void>
}

const tenants = ['acme', 'other']
const nothing: Room = { queue: 0, critical: 0, waiting: 0 }

/** Room that one process has taken and not given back, on both sides. */
interface Held {
  readonly tenant: string
  readonly at: number
  readonly use: Occupancy
  readonly inRedis: () => void
  readonly inMemory: () => void
}

/** Runs one world; returns the number of operations that were compared. */
export async function compareRooms(options: RoomDifferentialOptions): Promise<number> {
  const { seed, operations, open, lose } = options
  const random = seededRandom(seed)
  const world = `w${seed}:`
  const clock = createVirtualClock(1_000_000)
  /** The use that each process has on record, by tenant. */
  const onRecord = new Map<string, Map<string, { queue: number; waiting: number; bytes: number }>>(
    tenants.map((tenant) => [tenant, new Map()]),
  )
  let generation = 0
  const fleet = ['m1', 'm2', 'm3'].map((member) => ({
    member,
    room: createRedisRoom({
      redis: open(world, clock),
      clock,
      member,
      record: {
        nextRoomGeneration: async () => {
          generation += 1
          return generation
        },
        tallies: async (tenant) =>
          Array.from(onRecord.get(tenant)!, ([name, use]) => ({ member: name, ...use })),
      },
    }),
  }))
  const memory = createMemoryRoom()
  const bounds: TenantBounds = {
    queueMax: random.pick([1, 5, 30]),
    waitingMax: random.pick([0, 3, 20]),
    bytesMax: random.pick([100, 2_000]),
  }
  const held: Held[] = []
  // Each process fills the room anew where it asks a first time, so all of them ask before anything is taken.
  const lost = new Set(tenants)

  /** The process tells what it uses, and hears what the others use. */
  const word = async (room: RedisRoom, tenant: string): Promise<void> => {
    const taken = await room.take(tenant, nothing, bounds)
    assert.ok('giveBack' in taken, `nothing is refused, seed ${seed}`)
  }

  /**
   * Behind a loss each process has to tell its use again, which it does with its next question. One that had nothing to
   * tell may fill the room anew for it, so that they tell twice.
   */
  async function wordOfAll(tenant: string): Promise<void> {
    if (!lost.delete(tenant)) return
    for (const { room } of [...fleet, ...fleet]) await word(room, tenant)
  }

  async function take(): Promise<void> {
    const tenant = random.pick(tenants)
    const at = random.below(fleet.length)
    await wordOfAll(tenant)
    const asked = roomOf(random)
    const expected = memory.take(tenant, asked, bounds) as RoomTaken
    const answer = await fleet[at]!.room.take(tenant, asked, bounds)
    if (!('giveBack' in expected) || !('giveBack' in answer)) {
      assert.deepEqual(answer, expected, `take, seed ${seed}`)
      return
    }
    const { critical, waiting, bytes = 0 } = asked
    const use = { queue: asked.queue + critical, waiting, bytes }
    held.push({ tenant, at, use, inRedis: answer.giveBack, inMemory: expected.giveBack })
  }

  /** Gives back what was taken: it was not accepted, or it is counted on record from now on. */
  async function giveBack(): Promise<void> {
    const each = held.splice(random.below(held.length), 1)[0]
    if (each === undefined) return
    const { member, room } = fleet[each.at]!
    if (random.once(2)) await count(each.tenant, member, room, each.use)
    each.inMemory()
    each.inRedis()
    await word(room, each.tenant)
  }

  async function count(tenant: string, member: string, room: RedisRoom, by: Occupancy): Promise<void> {
    const uses = onRecord.get(tenant)!
    const use = uses.get(member) ?? { queue: 0, waiting: 0, bytes: 0 }
    uses.set(member, {
      queue: use.queue + by.queue,
      waiting: use.waiting + by.waiting,
      bytes: use.bytes + by.bytes,
    })
    room.count(tenant, by)
    memory.count(tenant, by)
  }

  /** Something that is on record has left. */
  async function leave(): Promise<void> {
    const tenant = random.pick(tenants)
    const { member, room } = random.pick(fleet)
    const use = onRecord.get(tenant)!.get(member)
    if (use === undefined) return
    await count(tenant, member, room, {
      queue: -random.between(0, Math.min(3, use.queue)),
      waiting: -random.between(0, Math.min(3, use.waiting)),
      bytes: -random.between(0, use.bytes),
    })
    await word(room, tenant)
  }

  async function look(): Promise<void> {
    const tenant = random.pick(tenants)
    const { room } = random.pick(fleet)
    await wordOfAll(tenant)
    await word(room, tenant)
    assert.deepEqual(room.of(tenant), memory.of(tenant), `use, seed ${seed}`)
  }

  let compared = 0
  for (; compared < operations; compared += 1) {
    const dice = random.below(100)
    if (dice < 50) await take()
    else if (dice < 70) await giveBack()
    else if (dice < 85) await leave()
    else if (dice < 98) await look()
    else {
      const tenant = random.pick(tenants)
      await lose(world, tenant)
      lost.add(tenant)
    }
  }
  for (const { room } of fleet) await room.close()
  for (const tenant of tenants) await lose(world, tenant)
  return compared
}

function roomOf(random: Random): Room {
  const kind = random.below(4)
  return {
    queue: kind === 0 ? random.between(0, 4) : kind === 3 ? 1 : 0,
    critical: kind === 1 ? random.between(1, 2) : random.once(12) ? 1 : 0,
    waiting: kind === 2 ? random.between(1, 3) : 0,
    bytes: random.once(3) ? 0 : random.between(0, 90),
  }
}
