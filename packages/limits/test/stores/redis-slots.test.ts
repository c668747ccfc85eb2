/** Account slots in Redis: the same random questions as in memory, and every answer compared; over both clients. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, it } from 'node:test'
import { type Random, seededRandom, seedOfRun } from '@sluice/limits-conformance'
import { Cluster, Redis } from 'ioredis'
import { createClient } from 'redis'
import { needs } from '../../../../scripts/services/needs.ts'
import {
  type ColdStart,
  createSlotLeases,
  LimitsError,
  memorySlots,
  type RedisClient,
  type RedisSlotsOptions,
  redisSlots,
  type SlotQuestion,
  type SlotStore,
  type SlotWindow,
  type TimedGrant,
} from '../../src/index.ts'

const url = process.env.SLUICE_TEST_REDIS ?? ''
const nodes = (process.env.SLUICE_TEST_REDIS_CLUSTER ?? '').split(',').filter(Boolean)
const start = Date.UTC(2026, 10, 21, 12)
/** The tests ask whether answers are right, not how soon they come on a busy machine. */
const deadlineMs = 20_000
let stores = 0

function open(client: RedisClient, options: RedisSlotsOptions = {}): SlotStore {
  stores += 1
  return redisSlots(client, { deadlineMs, prefix: `${process.pid}:slots:${stores}:`, ...options })
}

const second = 1_000
const hour = 3_600_000
/** Every account of a call has one of these; all are known from the first call on, since each has every length. */
const rates: readonly (readonly SlotWindow[])[] = [
  [
    { max: 5, windowMs: 100 },
    { max: 4_000, windowMs: second },
    { max: 9_000, windowMs: hour },
  ],
  [
    { max: 300, windowMs: 100 },
    { max: 40, windowMs: second },
    { max: 90, windowMs: hour },
  ],
  [
    { max: 0, windowMs: 100 },
    { max: 40, windowMs: second },
    { max: 90, windowMs: hour },
  ],
  [
    { max: 7, windowMs: hour },
    { max: 9, windowMs: 100 },
    { max: 5, windowMs: second },
    { max: 8, windowMs: second },
  ],
]

function randomQuestions(random: Random): SlotQuestion[] {
  const accounts = ['a', 'b', 'c', 'd', 'e', 'f'].filter(() => random.once(2))
  return accounts.map((account) => {
    // Nearly always the same rate for an account, so that rosters are found again.
    const windows = random.once(20) ? random.pick(rates) : rates[account.charCodeAt(0) % rates.length]!
    return { account, windows, want: random.once(8) ? random.between(0, 300_000) : random.between(0, 6) }
  })
}

/** Two processes over Redis, each in its turn at random, and the same questions in memory. */
async function compare(
  client: RedisClient,
  operations: number,
  coldStart: ColdStart = 'grant',
): Promise<void> {
  const random = seededRandom(seedOfRun())
  const world = { now: start }
  const now = () => world.now
  stores += 1
  const prefix = `${process.pid}:compared:${stores}:`
  const fleet = [1, 2].map(() => redisSlots(client, { prefix, deadlineMs, now, coldStart }))
  const model = memorySlots({ now, coldStart })
  for (let count = 0; count < operations; count += 1) {
    if (random.once(60)) world.now -= random.pick([1, 30, 5_000])
    else if (random.once(80)) world.now += 7_200_000
    else world.now += random.pick([0, 0, 1, 3.25, 7, 20, 20, 61, 400])
    const store = random.pick(fleet)
    const account = random.pick(['a', 'b', 'c'])
    const dice = random.below(20)
    if (dice < 2) {
      const halfOpen = random.once(2)
      const untilMs = Math.ceil(world.now + random.between(-50, 400))
      const block = dice === 0 ? { untilMs, halfOpen } : undefined
      for (const each of [store, model]) await each.block(20, account, block)
      continue
    }
    const questions = randomQuestions(random)
    if (questions.length === 0) continue
    const call = { slotMs: 20, questions, probeMs: random.once(8) ? 150 : undefined }
    const [is, should] = await Promise.all([store.ask(call), model.ask(call)])
    const told = `operation ${count} at ${world.now}: ${JSON.stringify(call)}`
    assert.deepEqual(is.map(inMicros), should.map(inMicros), told)
  }
}

function inMicros(grant: TimedGrant): TimedGrant {
  return { ...grant, endsAtMs: Math.round(grant.endsAtMs * 1_000) }
}

describe('account slots in Redis', needs('redis'), () => {
  const client = new Redis(url, { lazyConnect: true, enableAutoPipelining: true })
  const other = createClient({ url })
  after(() => {
    client.disconnect()
    if (other.isOpen) other.destroy()
  })

  it('answer the same over ioredis as in memory', async (t) => {
    t.diagnostic(`SLUICE_SEED=${seedOfRun()}`)
    await compare(client, Number(process.env.SLUICE_OPERATIONS ?? 6_000))
  })

  it('answer the same as memory where new slots wait', async () => {
    for (let run = 0; run < 6; run += 1) await compare(client, 300, 'wait')
  })

  it('grant nothing after a FLUSHALL until short windows are over, where they are told to wait', async () => {
    const prefix = `${process.pid}:cold:`
    const world = { now: start }
    const leases = createSlotLeases({
      store: open(client, { prefix, now: () => world.now, coldStart: 'wait' }),
    })
    const ask = async () =>
      (await leases.lease([{ account: 'a', windows: '10/100ms, 20/s, 50/h', want: 20 }]))[0]!.granted
    const used: { readonly at: number; readonly count: number }[] = []
    for (let tick = 0; tick < 400; tick += 1) {
      world.now += 20
      if (tick === 70 || tick === 200) await client.del(...(await client.keys(`${prefix}*`)))
      used.push({ at: world.now, count: await ask() })
    }
    // A token is good until its slot ends, so that a use may be as late as that.
    for (const { at: from } of used) {
      const inWindow = (ms: number) =>
        used.filter(({ at }) => at >= from && at < from + ms).reduce((sum, { count }) => sum + count, 0)
      assert.ok(inWindow(100) <= 10 && inWindow(1_000) <= 20, `${inWindow(1_000)} in a second`)
    }
    // New at once, and twice lost: each time it waits a second and the slot at hand, and then grants again.
    const firsts = [0, 70, 200].map((from) => used.findIndex(({ count }, tick) => tick >= from && count > 0))
    assert.deepEqual(firsts, [51, 121, 251])
  })

  it('answer the same over node-redis as in memory', async () => {
    await other.connect()
    await compare(other, 1_500)
  })

  it('lease from the time of the server, and lose nothing when it forgets the script or everything', async () => {
    const prefix = `${process.pid}:forgotten:`
    const leases = createSlotLeases({ store: open(client, { prefix }), slotMs: 1_000 })
    const asks = [{ account: 'a', windows: '10/min', want: 4 }]
    const [first] = await leases.lease(asks)
    assert.ok(first!.granted === 4 && first!.endsInMs > 0 && first!.endsInMs <= 1_000)
    await client.script('FLUSH')
    assert.equal((await leases.lease(asks))[0]!.granted, 4)
    // Everything of these accounts alone: other files of tests have theirs on the same server at the same time.
    const kept = await client.keys(`${prefix}*`)
    assert.ok(kept.length > 0)
    await client.del(...kept)
    assert.equal((await leases.lease(asks))[0]!.granted, 4)
  })

  it('spread accounts over shards, answer in the order of the call, and expire by themselves', async () => {
    const prefix = `${process.pid}:sharded:`
    const leases = createSlotLeases({ store: open(client, { prefix, shards: 4 }), slotMs: 10_000 })
    const asks = Array.from({ length: 300 }, (_, index) => ({
      account: `account ${index}`,
      windows: `${index}/min`,
      want: 1_000,
    }))
    const granted = (await leases.lease(asks)).map((lease) => lease.granted)
    assert.deepEqual(
      granted,
      asks.map((_, index) => index),
    )
    await leases.block('account 7', Date.now() + 60_000)
    const again = await leases.lease(asks.toReversed())
    assert.ok(again.every((lease) => lease.granted === 0))
    assert.deepEqual(
      again.filter(({ blockedUntil }) => blockedUntil !== undefined).map(({ account }) => account),
      ['account 7'],
    )
    for (let shard = 0; shard < 4; shard += 1)
      assert.ok((await client.pttl(`${prefix}{10000:${shard}}`)) > 0, `shard ${shard} lives for ever`)
  })

  it('keep granted tokens for as long as the longest window, and a block beyond its end', async () => {
    const prefix = `${process.pid}:kept:`
    const leases = createSlotLeases({ store: open(client, { prefix }) })
    const day = 86_400_000
    await leases.lease([{ account: 'a', windows: '5/s, 100/31d', want: 1 }])
    assert.ok((await client.pttl(`${prefix}{20:0}`)) > 31 * day)
    const short = createSlotLeases({ store: open(client, { prefix }), slotMs: 10 })
    await short.block('a', Date.now() + 2 * day)
    assert.ok((await client.pttl(`${prefix}{10:0}`)) > 2 * day)
    await short.lease([{ account: 'a', windows: '5/s', want: 1 }])
    assert.ok((await client.pttl(`${prefix}{10:0}`)) > 2 * day)
  })

  it('take as many accounts as a shard may have, and start their list anew when accounts have gone', async () => {
    const leases = createSlotLeases({ store: open(client) })
    const asks = (count: number, name: string) =>
      Array.from({ length: count }, (_, index) => ({ account: `${name}${index}`, windows: '5/min', want: 9 }))
    for (const name of ['old', 'new']) {
      const all = await leases.lease(asks(2_000, name))
      assert.ok(all.every(({ granted }) => granted === 5))
    }
    await assert.rejects(
      leases.lease(asks(2_001, 'many')),
      (error) =>
        error instanceof LimitsError && error.code === 'INVALID_ARGUMENT' && /shards/.test(error.message),
    )
  })

  it('end by their deadline with a typed error when Redis does not answer', async () => {
    const heard: LimitsError[] = []
    const stuck = new Redis(url, { lazyConnect: true })
    await stuck.connect()
    const leases = createSlotLeases({
      store: open(stuck, { deadlineMs: 30, onError: (error) => heard.push(error) }),
    })
    // This connection alone waits for a list that nobody fills.
    const waiting = stuck.blpop(`${process.pid}:nobody`, 2)
    await assert.rejects(
      leases.lease([{ account: 'a', windows: '5/s', want: 1 }]),
      (error) => error instanceof LimitsError && error.code === 'STORE_UNAVAILABLE',
    )
    assert.equal(heard.length, 1)
    stuck.disconnect()
    await waiting.catch(() => {})
  })

  it('refuse invalid arguments', () => {
    for (const options of [{ shards: 0 }, { shards: 1.5 }, { deadlineMs: 0 }, { prefix: 1 }, { now: 1 }]) {
      assert.throws(
        () => redisSlots(client, options as RedisSlotsOptions),
        (error) => error instanceof LimitsError && error.code === 'INVALID_ARGUMENT',
        JSON.stringify(options),
      )
    }
  })
})

describe('account slots on a cluster of three', needs('redis-cluster'), () => {
  const at = nodes.map((node) => ({ host: new URL(node).hostname, port: Number(new URL(node).port) }))
  const client = new Cluster(at, { lazyConnect: true, enableAutoPipelining: true })
  after(() => client.disconnect())

  it('lie on all nodes, and answer the same as memory', async () => {
    await compare(client, 300)
    const leases = createSlotLeases({ store: open(client, { shards: 16 }), slotMs: 10_000 })
    const asks = Array.from({ length: 64 }, (_, index) => ({
      account: `${index}`,
      windows: '3/min',
      want: 9,
    }))
    assert.ok((await leases.lease(asks)).every(({ granted }) => granted === 3))
    const sizes = await Promise.all(client.nodes('master').map((node) => node.dbsize()))
    assert.ok(
      sizes.every((size) => size > 0),
      `${sizes}`,
    )
  })
})
