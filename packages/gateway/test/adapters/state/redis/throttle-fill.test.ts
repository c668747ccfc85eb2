/** The fill of throttle queues in parts: what is known meanwhile, and what becomes of a fill that does not end. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { createRedisThrottle } from '../../../../src/adapters/state/redis/redis-throttle.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import { densest } from '../../../harness.ts'
import { engines, newPrefix, openAdmin, openRedis, stateAt } from './open.ts'
import { createThrottleRecord } from './throttle-record.ts'

const marginMs = 20
const start = 1_000_000
const tenant = [parseWindow('10/10s')]
const slot = 10_000 + marginMs
const perSlot = 10
const passed = 300
/** The last ones leave room in their slot. */
const waiting = 1_005
/** The last instants count for the window of the start. */
const counting = perSlot
/** Parts of 200 rows of what has passed within the window and of what waits. */
const parts = Math.ceil((counting + waiting) / 200)

type Over = (redis: RedisState) => RedisState

/** Opens a record in which entries of three modules wait behind a full window, and processes over it. */
function open(engine: (typeof engines)[number]) {
  const clock = createVirtualClock(start)
  const record = createThrottleRecord('acme')
  for (let index = 0; index < passed; index += 1) {
    const id = `0-${String(index).padStart(4, '0')}`
    const age = Math.floor((passed - 1 - index) / perSlot) * slot
    record.passed.set(id, { id, module: 'shop', at: start - age, isCritical: index % 7 === 0 })
  }
  for (let index = 0; index < waiting; index += 1) {
    const id = `1-${String(index).padStart(4, '0')}`
    const at = start + slot * (1 + Math.floor(index / perSlot))
    record.waits.set(id, { id, module: `m${index % 3}`, at, dueAt: at })
  }
  const prefix = newPrefix()
  const openState = (over: Over = (redis) => redis) =>
    createRedisThrottle({
      redis: over(openRedis(engine, { prefix, clock, isVirtual: true })),
      record,
      clock,
      marginMs,
      ratesOf: () => ({ tenant, module: [] }),
    })
  /** Opens a process that begins to fill and is killed: it asks and hears nothing any more, and its socket is destroyed. */
  function openMortal({ part, how }: Death) {
    const { promise: death, resolve: die } = Promise.withResolvers<void>()
    const { promise: never, reject: end } = Promise.withResolvers<never>()
    // Otherwise its question waits for its deadline, 20 s, and the process of the tests with it.
    after(() => end(new Error('the tests are over')))
    let isDead = false
    let arrive: (() => Promise<unknown>) | undefined
    const socket = stateAt(engine, { prefix, clock, isVirtual: true })
    const state = openState(() => ({
      ...socket,
      async ask(...question) {
        if (isDead) return never
        const [operation, payload] = question[2]
        const isLast = operation === 'fill' && Number(JSON.parse(String(payload)).p) === part
        if (!isLast || how === 'performed') {
          const reply = await socket.ask(...question)
          if (!isLast) return reply
        }
        isDead = true
        socket.close()
        if (how === 'sent')
          arrive = () => openRedis(engine, { prefix, clock, isVirtual: true }).ask(...question)
        die()
        return never
      },
    }))
    Promise.resolve(state.use('acme', 'm0')).catch(() => undefined)
    return { death, arrive: async () => arrive?.() }
  }
  return { clock, record, key: `${prefix}{T/acme}:throttle`, openState, openMortal }
}

/** Runs `step` before each question of a fill, with its part; the question itself goes to Redis behind it. */
const beforeFill =
  (step: (part: number, ask: () => Promise<unknown>) => Promise<unknown>): Over =>
  (redis) => ({
    ...redis,
    async ask(...question) {
      const [operation, payload] = question[2]
      if (operation === 'fill')
        await step(Number(JSON.parse(String(payload)).p), () => redis.ask(...question))
      return redis.ask(...question)
    },
  })

/** Asserts that every entry has the place that the record promised it, and that one more gets the next one. */
async function assertPlaces(
  { record }: ReturnType<typeof open>,
  state: ReturnType<ReturnType<typeof open>['openState']>,
) {
  const found = await Promise.all(Array.from(record.waits.values(), (each) => state.placeOf('acme', each)))
  assert.deepEqual(
    found,
    Array.from(record.waits.values(), ({ at }) => at),
  )
  const next = (await state.pass('acme', [{ id: '2', module: 'shop' }]))!.places[0]!
  assert.equal(next.at, start + slot * (1 + Math.floor(waiting / perSlot)))
}

/** A claim lasts so long behind the last part, ms: throttle-queue.lua. */
const claimMs = 2_000

/**
 * Where a process dies in its fill: before it sends a part, which may have gone on its way all the same, or when a part was
 * performed and its answer is not heard.
 */
type Death = { readonly part: number; readonly how: 'unsent' | 'sent' | 'performed' }
const deaths: readonly Death[] = [
  ...[0, 1, 3, parts - 1].map((part) => ({ part, how: 'unsent' as const })),
  ...[1, parts - 1].map((part) => ({ part, how: 'sent' as const })),
  ...[2, parts - 1].map((part) => ({ part, how: 'performed' as const })),
]

for (const engine of engines)
  describe(`on ${engine}`, needs(engine), () => {
    it('takes a part after the other, and nothing is known of the queue until the last one', async () => {
      const world = open(engine)
      const asked: number[] = []
      const pending: Promise<unknown>[] = []
      const state = world.openState(
        beforeFill(async (part) => {
          asked.push(part)
          const other = world.openState()
          let isAnswered = false
          pending.push(Promise.resolve(other.use('acme', 'm0')).then(() => (isAnswered = true)))
          await new Promise((resolve) => setTimeout(resolve, 10))
          assert.equal(isAnswered, false)
        }),
      )
      await state.use('acme', 'm0')
      await Promise.all(pending)
      assert.deepEqual(
        asked,
        Array.from({ length: parts }, (_, part) => part),
      )
      assert.equal(world.record.generation, 1, 'the others wait for it')
      await assertPlaces(world, state)
    })

    it('takes a part once that is asked again, as its answer was lost', async () => {
      const world = open(engine)
      const state = world.openState(beforeFill((_, ask) => ask()))
      await state.use('acme', 'm0')
      await assertPlaces(world, state)
    })

    for (const lost of [1, parts - 1])
      it(`begins anew where Redis loses what it has before part ${lost}`, async (t) => {
        const world = open(engine)
        const admin = await openAdmin(engine)
        t.after(admin.close)
        let losses = 0
        const state = world.openState(
          beforeFill(async (part) => {
            if (part === lost && losses === 0) {
              losses += 1
              await admin.remove(world.key)
            }
          }),
        )
        await state.use('acme', 'm0')
        assert.equal(world.record.generation, 2)
        await assertPlaces(world, state)
      })

    for (const { part, how } of deaths)
      it(`is filled wholly by another process, when the claim of one ends that was killed with part ${part} ${how}`, async () => {
        const world = open(engine)
        const { clock, record } = world
        const isFilled = how === 'performed' && part === parts - 1
        const killed = world.openMortal({ part, how })
        await killed.death
        // Another writer: the last entry is cancelled, which the dead process has read.
        const cancelled = record.waits.get(`1-${waiting - 1}`)!
        if (!isFilled) record.waits.delete(cancelled.id)
        let answers = 0
        const { promise: isWaiting, resolve: waits } = Promise.withResolvers<void>()
        const other = world.openState((redis) => ({
          ...redis,
          async ask(...question) {
            const [operation, payload] = question[2]
            // The question that the dead process had sent arrives in the middle of the next fill.
            if (operation === 'fill' && Number(JSON.parse(String(payload)).p) === part) await killed.arrive()
            const isOver = clock.now() >= start + claimMs
            const reply = await redis.ask(...question)
            assert.ok(!isOver || String(reply) !== '?,0', 'the claim has ended, and it waits for it')
            answers += 1
            if (answers === 2) waits()
            return reply
          },
        }))
        const used = Promise.resolve(other.use('acme', 'm0'))
        await Promise.race([used, isWaiting])
        // No part has renewed the claim since.
        await clock.runUntil(start + claimMs)
        assert.equal((await used)[0]!.used, counting)
        assert.equal(record.generation > 1, !isFilled)
        assert.equal((await other.placeOf('acme', cancelled)) !== undefined, isFilled)
        await assertPlaces(world, other)
      })

    it('gives every entry its turn at its place once, behind a process that was killed in its fill', async () => {
      const world = open(engine)
      const { clock, record } = world
      await world.openMortal({ part: 3, how: 'unsent' }).death
      await clock.runUntil(start + claimMs)
      const [one, other] = [world.openState(), world.openState()]
      const turned: { readonly id: string; readonly at: number }[] = []
      const rows = [...record.waits.values()]
      for (let from = 0; from < rows.length; from += perSlot) {
        const due = rows.slice(from, from + perSlot)
        await clock.runUntil(due[0]!.at)
        // Each asks for some of them.
        const turns = await Promise.all([one.turn('acme', due.slice(0, 4)), other.turn('acme', due.slice(4))])
        for (const [index, turn] of turns.flat().entries()) {
          assert.ok(turn.passed, `${due[index]!.id} passes at its place`)
          turned.push({ id: due[index]!.id, at: turn.at })
        }
      }
      assert.deepEqual(
        turned,
        rows.map(({ id, at }) => ({ id, at })),
      )
      assert.equal(
        densest(
          [...Array.from(record.passed.values(), ({ at }) => at), ...turned.map(({ at }) => at)],
          10_000,
        ),
        perSlot,
      )
      for (const state of [one, other])
        assert.deepEqual(
          await Promise.all(rows.slice(-perSlot).map((each) => state.placeOf('acme', each))),
          Array(perSlot).fill(undefined),
        )
    })

    it('takes no part of a process whose claim has lapsed meanwhile', async () => {
      const world = open(engine)
      const asked: number[] = []
      const beforeThird = beforeFill(async (part) => {
        asked.push(part)
        if (part !== 3) return
        await world.clock.runUntil(start + claimMs)
        await world.openState().use('acme', 'm0')
        world.record.passed.clear()
        world.record.waits.clear()
      })
      const slow = world.openState((redis) =>
        beforeThird({
          ...redis,
          // It renews its claim every 500 ms of real time, and here it is to lapse.
          ask: (...question) => (question[2][0] === 'keep' ? new Promise(() => {}) : redis.ask(...question)),
        }),
      )
      assert.equal((await slow.use('acme', 'm0'))[0]!.used, counting)
      assert.equal(world.record.generation, 2)
      assert.deepEqual(asked, [0, 1, 2, 3], 'it sends no part behind the one that was refused')
    })

    it('knows up to when nothing is free, and keeps it where a question that changes nothing has found it', async (t) => {
      const { key, record, openState } = open(engine)
      const admin = await openAdmin(engine)
      t.after(admin.close)
      const spanOf = async () => {
        const head = await admin.run(
          "return cjson.encode(cmsgpack.unpack(redis.call('HGET', KEYS[1], 'h')))",
          key,
        )
        return (JSON.parse(String(head)) as readonly number[]).slice(3, 5)
      }
      const free = start + slot * (1 + Math.floor(waiting / perSlot))
      const state = openState()
      const last = () => [...record.waits.values()].at(-1)!
      await state.placeOf('acme', last())
      assert.deepEqual(await spanOf(), [start, free], 'the fill has brought it')
      for (const ask of [() => state.use('acme', 'm0'), () => state.preview('acme', 'm0')]) {
        await state.leave('acme', [last()])
        record.waits.delete(last().id)
        assert.notDeepEqual(await spanOf(), [start, free])
        await ask()
        assert.deepEqual(await spanOf(), [start, free])
      }
    })
  })
