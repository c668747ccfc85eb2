/** The room of tenants in Redis: the suite of the port, several processes at one bound, and the loss of everything. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { seededRandom, seedOfRun } from '@sluice/limits-conformance'
import { Redis } from 'ioredis'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import {
  createRedisRoom,
  type RedisRoom,
  type RoomRecord,
} from '../../../../src/adapters/state/redis/redis-room.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { exerciseRoom } from '../../../../src/conformance/room.ts'
import type { Occupancy, TenantBounds } from '../../../../src/ports/tenants.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import { type Engine, engines, newPrefix, openRedis } from './open.ts'

/** The record of a store: the use of each member, and the present generation. */
interface RoomModel extends RoomRecord {
  generation: number
  readonly members: Map<string, { queue: number; waiting: number; bytes: number }>
}

function createRecord(pause: () => Promise<unknown> = () => Promise.resolve()): RoomModel {
  const model: RoomModel = {
    generation: 0,
    members: new Map(),
    async nextRoomGeneration() {
      await pause()
      model.generation += 1
      const { generation } = model
      await pause()
      return generation
    },
    async tallies() {
      await pause()
      const read = Array.from(model.members, ([member, use]) => ({ member, ...use }))
      await pause()
      return read
    },
  }
  return model
}

let members = 0

function open(
  engine: Engine,
  prefix: string,
  record = createRecord(),
): RedisRoom & { readonly member: string } {
  members += 1
  const member = `m${members}`
  const redis = openRedis(engine, { prefix })
  const room = createRedisRoom({ redis, record, clock: createSystemClock(), member })
  after(() => room.close())
  return { ...room, member }
}

/** Counts the questions to the server. */
function counted(redis: RedisState) {
  let asked = 0
  const counting: RedisState = {
    ...redis,
    ask(...given) {
      asked += 1
      return redis.ask(...given)
    },
  }
  return { redis: counting, questions: () => asked }
}

const queueOf = (queue: number) => ({ queue, critical: 0, waiting: 0 })

/** Lets each process ask a first time, at which the room is filled anew for it. */
async function meet(fleet: readonly RedisRoom[]): Promise<void> {
  const bounds: TenantBounds = { queueMax: 1, waitingMax: 1, bytesMax: 1 }
  for (const room of fleet) await room.take('acme', queueOf(0), bounds)
}

for (const engine of engines)
  describe(`on ${engine}`, needs(engine), () => {
    exerciseRoom('Room in Redis', () => open(engine, newPrefix()))

    it('gives exactly the bound to several processes that take at once', async () => {
      const prefix = newPrefix()
      const record = createRecord()
      const fleet = Array.from({ length: 4 }, () => open(engine, prefix, record))
      await meet(fleet)
      const bounds: TenantBounds = { queueMax: 1_000, waitingMax: 10, bytesMax: 1_000_000 }
      const random = seededRandom(seedOfRun())
      const sizes = Array.from({ length: 1_200 }, () => random.between(1, 3))
      const answers = await Promise.all(
        sizes.map(async (size, index) => ({
          size,
          answer: await fleet[index % 4]!.take('acme', queueOf(size), bounds),
        })),
      )
      const taken = answers.reduce((sum, { size, answer }) => sum + ('giveBack' in answer ? size : 0), 0)
      for (const { size, answer } of answers)
        if (!('giveBack' in answer))
          assert.ok(answer.used + size > 1_000, `${size} were refused at ${answer.used}`)
      assert.ok(taken <= 1_000 && taken > 997, `${taken} places are taken`)
      let left = 1_000 - taken
      for (const { size, answer } of answers.slice(0, 100)) {
        if (!('giveBack' in answer)) continue
        answer.giveBack()
        left += size
      }
      // The others hear within a second that room was given back.
      await until(async () => 'giveBack' in (await fleet[3]!.take('acme', queueOf(left), bounds)))
      assert.deepEqual(await fleet[0]!.take('acme', queueOf(1), bounds), { full: 'queue', used: 1_000 })
    })

    it('takes places ahead where single notifications come one after the other, and none for batches', async () => {
      const bounds: TenantBounds = { queueMax: 10_000, waitingMax: 10, bytesMax: 10_000_000 }
      const { redis, questions } = counted(openRedis(engine, { prefix: newPrefix() }))
      const room = createRedisRoom({ redis, record: createRecord(), clock: createSystemClock(), member: 'm' })
      after(() => room.close())
      const taken = async (places: number, times: number) => {
        const before = questions()
        for (let n = 0; n < times; n += 1)
          assert.ok('giveBack' in (await room.take('acme', { ...queueOf(places), bytes: 100 }, bounds)))
        return questions() - before
      }
      // Up to 32 at a time, fewer at first; a slow machine asks anew for each tenth of a second.
      assert.ok((await taken(1, 500)) < 400)
      assert.ok((await taken(2, 20)) >= 20)
      assert.deepEqual(room.of('acme'), { queue: 540, waiting: 0, bytes: 52_000 })
    })

    it('refuses nothing for places that another process has ahead and has not used', async () => {
      const bounds: TenantBounds = { queueMax: 5_000, waitingMax: 10, bytesMax: 10_000_000 }
      const prefix = newPrefix()
      const record = createRecord()
      const [first, second] = [open(engine, prefix, record), open(engine, prefix, record)]
      await meet([first, second])
      let all = 0
      for (const rest of [2_000, 1_000]) {
        for (let n = 0; n < 100; n += 1, all += 1)
          assert.ok('giveBack' in (await first.take('acme', queueOf(1), bounds)))
        const answer = await second.take('acme', queueOf(rest), bounds)
        assert.ok('giveBack' in answer, JSON.stringify(answer))
        all += rest
      }
      const left = await second.take('acme', queueOf(5_000 - all), bounds)
      assert.ok('giveBack' in left, JSON.stringify(left))
      assert.deepEqual(await first.take('acme', queueOf(1), bounds), { full: 'queue', used: 5_000 })
      assert.deepEqual(await second.take('acme', queueOf(1), bounds), { full: 'queue', used: 5_000 })
    })

    it('counts the places ahead of one process against what another takes meanwhile', async () => {
      const bounds: TenantBounds = { queueMax: 5_000, waitingMax: 10, bytesMax: 10_000_000 }
      const prefix = newPrefix()
      const record = createRecord()
      const [first, second] = [open(engine, prefix, record), open(engine, prefix, record)]
      await meet([first, second])
      let all = 0
      const take = async (room: RedisRoom, places: number) => {
        const answer = await room.take('acme', queueOf(places), bounds)
        if ('giveBack' in answer) all += places
        return answer
      }
      for (let n = 0; n < 63; n += 1) await take(first, 1)
      const rest = take(second, 5_000 - all)
      await sleep(20)
      await Promise.all(Array.from({ length: 10 }, () => take(first, 1)))
      await rest
      assert.ok(all <= 5_000, `${all} places are taken`)
    })

    it('is filled again when the record has a later generation, of a filler that was overtaken', async () => {
      const record = createRecord()
      const room = open(engine, newPrefix(), record)
      const bounds: TenantBounds = { queueMax: 10, waitingMax: 10, bytesMax: 1_000 }
      const takenIn = async () => {
        const answer = await room.take('acme', queueOf(1), bounds)
        return 'giveBack' in answer ? answer.generation : undefined
      }
      assert.equal(await takenIn(), 1)
      const overtaken = await record.nextRoomGeneration('acme')
      assert.equal(await takenIn(), 1, 'the store refuses what is taken now')
      room.expect('acme', overtaken)
      assert.equal(await takenIn(), overtaken + 1)
      assert.equal(await takenIn(), overtaken + 1)
    })

    it('counts for a process that starts what a killed one had on record, and had told nobody', async () => {
      const prefix = newPrefix()
      const record = createRecord()
      const bounds: TenantBounds = { queueMax: 10, waitingMax: 10, bytesMax: 1_000 }
      const killed = open(engine, prefix, record)
      assert.ok('giveBack' in (await killed.take('acme', queueOf(4), bounds)))
      // Six that waited move into the queue: a move asks for no room, and is told within a second.
      record.members.set(killed.member, { queue: 10, waiting: 0, bytes: 0 })
      await sleep(5)
      const started = open(engine, prefix, record)
      assert.deepEqual(await started.take('acme', queueOf(1), bounds), { full: 'queue', used: 10 })
      record.members.set(killed.member, { queue: 9, waiting: 0, bytes: 0 })
      assert.deepEqual(
        await started.take('acme', queueOf(1), bounds),
        { full: 'queue', used: 10 },
        'read once',
      )
    })

    it('keeps the count of a tenant while room is taken that balances what it has on record', async () => {
      const room = open(engine, newPrefix())
      const bounds: TenantBounds = { queueMax: 10, waitingMax: 10, bytesMax: 1_000 }
      const use = { queue: 0, waiting: 1, bytes: 64 }
      // It has ended a notification that another process had accepted.
      room.count('acme', { waiting: -1, bytes: -64 })
      const taken = await room.take('acme', { ...use, critical: 0 }, bounds)
      assert.ok('giveBack' in taken)
      await sleep(2_500)
      room.count('acme', use)
      taken.giveBack()
      assert.deepEqual(room.own('acme'), { queue: 0, waiting: 0, bytes: 0 })
    })

    it('gives the room back that a process had taken and not committed when it was found dead', async () => {
      const prefix = newPrefix()
      const record = createRecord()
      const bounds: TenantBounds = { queueMax: 10, waitingMax: 10, bytesMax: 1_000 }
      const [dead, known, late] = Array.from({ length: 3 }, () => open(engine, prefix, record))
      await meet([dead!, known!, late!])
      const met = record.generation
      assert.ok('giveBack' in (await dead!.take('acme', queueOf(10), bounds)))
      record.members.set(dead!.member, { queue: 3, waiting: 0, bytes: 0 })
      assert.deepEqual(await known!.take('acme', queueOf(1), bounds), { full: 'queue', used: 10 })
      known!.noteGone([dead!.member])
      assert.ok('giveBack' in (await known!.take('acme', queueOf(6), bounds)))
      assert.equal(record.generation, met + 1, 'the room was filled anew, once')
      // The store folds the counts of a dead process, and a process that has not heard of it fills the room.
      record.members.delete(dead!.member)
      record.members.set('0', { queue: 3, waiting: 0, bytes: 0 })
      assert.deepEqual(await late!.take('acme', queueOf(2), bounds), { full: 'queue', used: 9 })
      assert.ok('giveBack' in (await late!.take('acme', queueOf(1), bounds)))
      late!.noteGone([dead!.member])
      assert.deepEqual(await late!.take('acme', queueOf(1), bounds), { full: 'queue', used: 10 })
      assert.equal(record.generation, met + 1)
    })

    it('is filled anew for a process that has changed the record, said nothing of it, and was found dead', async () => {
      const prefix = newPrefix()
      const record = createRecord()
      const bounds: TenantBounds = { queueMax: 10, waitingMax: 10, bytesMax: 1_000 }
      const [dead, known] = Array.from({ length: 2 }, () => open(engine, prefix, record))
      record.members.set('0', { queue: 3, waiting: 0, bytes: 0 })
      assert.ok('giveBack' in (await known!.take('acme', queueOf(1), bounds)))
      // It has ended one that another process had accepted.
      record.members.set(dead!.member, { queue: -1, waiting: 0, bytes: 0 })
      known!.noteGone([dead!.member])
      assert.ok('giveBack' in (await known!.take('acme', queueOf(7), bounds)))
      assert.deepEqual(await known!.take('acme', queueOf(1), bounds), { full: 'queue', used: 10 })
    })

    it('is not filled for ever by processes that know of different ones that have gone', async () => {
      const prefix = newPrefix()
      const record = createRecord()
      const bounds: TenantBounds = { queueMax: 10, waitingMax: 10, bytesMax: 1_000 }
      const [one, two] = Array.from({ length: 2 }, () => open(engine, prefix, record))
      one!.noteGone(['g1', 'g2'])
      two!.noteGone(['g3'])
      for (let times = 0; times < 3; times += 1)
        for (const each of [one!, two!])
          assert.ok('giveBack' in (await each.take('acme', queueOf(1), bounds)))
      assert.equal(record.generation, 2)
    })

    it('does not count what a process says that was found dead before, for those that joined after its death', async () => {
      const prefix = newPrefix()
      const record = createRecord()
      const bounds: TenantBounds = { queueMax: 10, waitingMax: 10, bytesMax: 1_000 }
      const [dead, known, born] = Array.from({ length: 3 }, () => open(engine, prefix, record))
      assert.ok('giveBack' in (await dead!.take('acme', queueOf(8), bounds)))
      record.members.set('0', { queue: 8, waiting: 0, bytes: 0 })
      known!.noteGone([dead!.member])
      assert.ok('giveBack' in (await known!.take('acme', queueOf(1), bounds)), 'the room was filled anew')
      // It was stopped, and wakes: what it asks for now is decided by the record, and its commit is refused.
      await dead!.take('acme', queueOf(1), bounds)
      assert.ok('giveBack' in (await born!.take('acme', queueOf(1), bounds)), 'the dead one fills no room')
    })

    it('tells the other processes within a second what was counted without a request', async () => {
      const prefix = newPrefix()
      const bounds: TenantBounds = { queueMax: 10, waitingMax: 10, bytesMax: 1_000 }
      const [one, other] = [open(engine, prefix), open(engine, prefix)]
      one.count('acme', { queue: 10 })
      await until(async () => {
        const answer = await other.take('acme', queueOf(1), bounds)
        if ('giveBack' in answer) answer.giveBack()
        return 'full' in answer
      })
      one.count('acme', { queue: -10 })
      await until(async () => 'giveBack' in (await other.take('acme', queueOf(10), bounds)))
    })
  })

/** Waits for what becomes true within 30 s. */
async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const sinceMs = performance.now()
  while (!(await isTrue())) {
    assert.ok(performance.now() - sinceMs < 30_000, 'it has not become true')
    await sleep(20)
  }
}

const sum = (all: Iterable<Occupancy>): number => [...all].reduce((total, { queue }) => total + queue, 0)

it('keeps the bound when Redis loses everything while four processes take', needs('redis'), async (t) => {
  const prefix = newPrefix()
  const random = seededRandom(seedOfRun())
  const record = createRecord(() => sleep(random.below(3)))
  const fleet = Array.from({ length: 4 }, () => open('redis', prefix, record))
  const queueMax = 40
  const bounds: TenantBounds = { queueMax, waitingMax: 10, bytesMax: 1_000_000 }
  const redis = new Redis(process.env.SLUICE_TEST_REDIS ?? '')
  after(() => redis.disconnect())
  const endsMs = performance.now() + 3_000
  let [accepted, refusedByRecord, full, lost] = [0, 0, 0, 0]
  let most = 0

  /** Accepts and ends notifications of one process, as the ledger does. */
  async function work(own: (typeof fleet)[number]): Promise<void> {
    const use = record.members.get(own.member) ?? { queue: 0, waiting: 0, bytes: 0 }
    record.members.set(own.member, use)
    while (performance.now() < endsMs) {
      const size = random.between(1, 4)
      const answer = await own.take('acme', queueOf(size), bounds)
      if ('full' in answer) {
        full += 1
        await sleep(1)
        continue
      }
      await sleep(random.below(40))
      const isRefused = answer.generation !== record.generation
      if (isRefused) refusedByRecord += 1
      else {
        accepted += size
        use.queue += size
        most = Math.max(most, sum(record.members.values()))
        own.count('acme', { queue: size })
      }
      answer.giveBack()
      if (isRefused) continue
      void sleep(random.between(100, 300)).then(() => {
        use.queue -= size
        own.count('acme', { queue: -size })
      })
    }
  }

  async function lose(): Promise<void> {
    while (performance.now() < endsMs) {
      await sleep(random.between(5, 60))
      await redis.del(`${prefix}{T/acme}:room`)
      lost += 1
    }
  }
  await Promise.all([...Array.from({ length: 6 }, () => fleet.map(work)).flat(), lose()])
  t.diagnostic(
    `${accepted} accepted, ${refusedByRecord} refused by the record, ${full} found it full; lost ${lost} times; ${most} of ${queueMax} at most`,
  )
  assert.ok(accepted > 100 && lost > 20)
  assert.ok(most <= queueMax, `${most} of ${queueMax} were on record at once`)
})

it('keeps the names of processes that have gone for an hour, however many die', needs('redis'), async () => {
  const clock = createVirtualClock(1_000_000)
  const prefix = newPrefix()
  const redis = openRedis('redis', { prefix, clock, isVirtual: true })
  const [known, other] = ['known', 'other'].map((member) => {
    const room = createRedisRoom({ redis, record: createRecord(), clock, member })
    after(() => room.close())
    return room
  })
  const server = new Redis(process.env.SLUICE_TEST_REDIS ?? '')
  after(() => server.disconnect())
  const bounds: TenantBounds = { queueMax: 10, waitingMax: 10, bytesMax: 1_000 }
  const namesGone = async () =>
    (await server.hkeys(`${prefix}{T/acme}:room`)).filter((field) => field.startsWith('x')).length
  for (let died = 0; died < 40; died += 1) {
    known!.noteGone([`dead ${died}`])
    await known!.take('acme', queueOf(0), bounds)
  }
  assert.equal(await namesGone(), 40)
  await known!.close()
  await clock.runUntil(clock.now() + 3_600_001)
  await other!.take('acme', queueOf(0), bounds)
  assert.equal(await namesGone(), 0)
})
