/** The limits of tenants and modules in Redis: the suite of the port, on one server and on a cluster. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createRedisThrottle } from '../../../../src/adapters/state/redis/redis-throttle.ts'
import { exerciseThrottle, type ThrottleTerms } from '../../../../src/conformance/throttle.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import type { ThrottlePlace } from '../../../../src/throttle-port.ts'
import { type Engine, engines, newPrefix, openRedis } from './open.ts'
import { createThrottleRecord } from './throttle-record.ts'

const marginMs = 20
const second = 1_000

function open(engine: Engine, terms: ThrottleTerms) {
  const clock = createVirtualClock(1_000_000)
  const record = createThrottleRecord('acme')
  const prefix = newPrefix()
  const rates = { tenant: terms.tenant, module: terms.module }
  const ratesOf = (tenant: string) => (tenant === 'acme' ? rates : { tenant: [], module: [] })
  const openState = (own = rates) =>
    createRedisThrottle({
      redis: openRedis(engine, { prefix, clock, isVirtual: true }),
      record,
      clock,
      marginMs: terms.marginMs,
      ratesOf: (tenant) => (tenant === 'acme' ? own : ratesOf(tenant)),
    })
  const state = openState()
  return {
    state,
    openState,
    record,
    now: clock.now,
    async until(instant: number) {
      await clock.runUntil(instant)
      // Answered behind whatever was asked when timers ran.
      await state.use('acme', 'shop')
    },
  }
}

for (const engine of engines)
  describe(`on ${engine}`, needs(engine), () => {
    exerciseThrottle('Throttle queues in Redis', (terms) => open(engine, terms), { countsUnknownTurns: true })

    it('counts over all processes, and lets one take the turns of another', async () => {
      const { state, openState, until } = open(engine, {
        tenant: [parseWindow('3/10s')],
        module: [],
        marginMs,
      })
      const other = openState()
      const ids = ['a', 'b', 'c', 'd'].map((id) => ({ id, module: 'shop' }))
      const first = await state.pass('acme', ids.slice(0, 2))
      const rest = await other.pass('acme', ids.slice(2))
      assert.deepEqual(
        [...first!.places, ...rest!.places].map(({ waits }) => waits),
        [false, false, false, true],
      )
      assert.equal((await state.use('acme', 'shop'))[0]!.used, 3)
      await until(rest!.places[1]!.at)
      const [turn] = await state.turn('acme', [ids[3]!])
      assert.deepEqual([turn!.passed, turn!.at], [true, rest!.places[1]!.at])
    })

    it('puts no entry back whose turn was of an earlier generation: the fill has counted it', async () => {
      const { state, openState, record, until } = open(engine, {
        tenant: [parseWindow('1/10s')],
        module: [],
        marginMs,
      })
      const [first, waiting, behind] = ['a', 'b', 'c'].map((id) => ({ id, module: 'shop' }))
      const { places } = (await state.pass('acme', [first!, waiting!, behind!]))!
      const [, { at }, { at: behindAt, generation }] = places as [unknown, ThrottlePlace, ThrottlePlace]
      await until(at)
      const [turn] = await state.turn('acme', [waiting!])
      assert.deepEqual(turn, { passed: true, at, generation })
      // Another process has written the turn, and fills the queue for a wider window.
      record.passed.set('b', { ...waiting!, at, isCritical: false })
      record.waits.set('c', { ...behind!, at: behindAt, dueAt: behindAt })
      const refilled = openState({ tenant: [parseWindow('1/10s'), parseWindow('50/60s')], module: [] })
      assert.equal(await refilled.placeOf('acme', behind!), behindAt)
      await refilled.putBack('acme', [{ ...waiting!, at, generation: generation! }])
      assert.equal(await refilled.placeOf('acme', waiting!), undefined)
      assert.equal(await refilled.placeOf('acme', behind!), behindAt)
    })

    it('fills wider windows from the record: they count instants that were forgotten', async () => {
      const { state, openState, record, now, until } = open(engine, {
        tenant: [parseWindow('2/10s')],
        module: [],
        marginMs,
      })
      const pass = async (id: string, on = state) => {
        const places = (await on.pass('acme', [{ id, module: 'shop' }]))!.places
        if (!places[0]!.waits)
          record.passed.set(id, { id, module: 'shop', at: places[0]!.at, isCritical: false })
        return places[0]!
      }
      for (const id of ['a', 'b', 'c', 'd']) {
        assert.equal((await pass(id)).waits, false)
        await until(now() + 11 * second)
      }
      const wider = openState({ tenant: [parseWindow('5/60s')], module: [] })
      assert.equal((await wider.use('acme', 'shop'))[0]!.used, 4)
      assert.equal((await pass('e', wider)).waits, false)
      assert.equal((await pass('f', wider)).waits, true)
    })
  })
