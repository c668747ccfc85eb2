/** The fill of throttle queues in parts: what is known meanwhile, and what becomes of a fill that does not end. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { unavailable } from '../../../../src/adapters/state/redis/redis-answers.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { createRedisThrottle } from '../../../../src/adapters/state/redis/redis-throttle.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import { engines, newPrefix, openAdmin, openRedis } from './open.ts'
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
  return { clock, record, key: `${prefix}{T/acme}:throttle`, openState }
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

    it('is filled by another process where its own one ends behind the third part', async () => {
      const world = open(engine)
      const killed = world.openState(
        beforeFill(async (part) => {
          if (part === 3) throw unavailable('the test', 'killed')
        }),
      )
      await assert.rejects(async () => killed.use('acme', 'm0'))
      const other = world.openState()
      // The claim lapses 2 s behind the last part.
      await world.clock.runUntil(start + 2_001)
      assert.equal((await other.use('acme', 'm0'))[0]!.used, counting)
      assert.equal(world.record.generation, 2)
    })

    it('takes no part of a process whose claim has lapsed meanwhile', async () => {
      const world = open(engine)
      let filled = false
      const slow = world.openState(
        beforeFill(async (part) => {
          if (part !== 3 || filled) return
          filled = true
          await world.clock.runUntil(start + 2_001)
          await world.openState().use('acme', 'm0')
          world.record.passed.clear()
          world.record.waits.clear()
        }),
      )
      assert.equal((await slow.use('acme', 'm0'))[0]!.used, counting)
      assert.equal(world.record.generation, 2)
    })
  })
