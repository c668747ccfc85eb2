/** Turns of throttle queues in Redis that several processes are given, and that are put back. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import type { ThrottlePlace } from '../../../../src/ports/tenants.ts'
import { densest } from '../../../harness.ts'
import { engines } from './open.ts'
import { openThrottle as open } from './open-throttle.ts'

const marginMs = 20
const windowMs = 30_000
const slot = windowMs + marginMs

/** Entries behind a window of one place, and a turn that two processes were given; then one of them is killed. */
async function openWithDeath(engine: (typeof engines)[number]) {
  const world = open(engine, { tenant: [parseWindow('1/30s')], module: [], marginMs })
  const { openState, until } = world
  let socket: RedisState | undefined
  const [mortal, state] = [openState(undefined, undefined, (redis) => (socket = redis)), openState()]
  const entries = ['a', 'b', 'c', 'd'].map((id) => ({ id, module: 'shop' }))
  const { places } = (await state.pass('acme', entries))!
  const [first, at] = [places[0]!.at, places[1]!.at]
  await until(at)
  const [given] = await mortal.turn('acme', [entries[1]!])
  const [turn] = await state.turn('acme', [entries[1]!])
  assert.deepEqual(given, turn)
  assert.equal(turn!.at, at)
  // It neither writes the turn nor puts it back.
  socket!.close()
  return { ...world, state, entries, first, at, turn: turn! }
}

for (const engine of engines)
  describe(`on ${engine}`, needs(engine), () => {
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

    it('puts a turn back once that two processes were given: the second one cannot uncount the entry of another', async () => {
      const { state, openState, until } = open(engine, {
        tenant: [parseWindow('2/10s')],
        module: [],
        marginMs,
      })
      const other = openState()
      const entries = ['a', 'b', 'c', 'd'].map((id) => ({ id, module: 'shop' }))
      const { places } = (await state.pass('acme', entries))!
      const { at } = places[2]!
      await until(at)
      const [, , c, d] = entries
      // Both processes find that the entry was cancelled.
      const turns = [await state.turn('acme', [c!]), await other.turn('acme', [c!])]
      for (const [index, each] of [state, other].entries()) {
        await each.putBack('acme', [{ ...c!, ...turns[index]![0]! }])
        await each.leave('acme', [c!])
        assert.equal(await each.placeOf('acme', c!), undefined)
      }
      assert.equal((await state.turn('acme', [d!]))[0]!.at, at)
      const next = (await state.pass('acme', [
        { id: 'e', module: 'shop' },
        { id: 'f', module: 'shop' },
      ]))!
      assert.deepEqual(
        next.places.map(({ waits }) => waits),
        [false, true],
        'the fourth counts',
      )
    })

    for (const putsBackFirst of ['the first', 'the second'] as const)
      it(`keeps a turn that ${putsBackFirst} of two processes puts back while the other one may be writing it`, async () => {
        const { state, openState, until } = open(engine, {
          tenant: [parseWindow('1/10s')],
          module: [],
          marginMs,
        })
        const other = openState()
        const entries = ['a', 'b', 'c'].map((id) => ({ id, module: 'shop' }))
        const [, b, c] = entries
        const { places } = (await state.pass('acme', entries))!
        const [, { at }, { at: behindAt }] = places as [unknown, ThrottlePlace, ThrottlePlace]
        await until(at)
        const [turn] = await state.turn('acme', [b!])
        const [repeated] = await other.turn('acme', [b!])
        assert.deepEqual(repeated, turn)
        assert.equal(turn!.at, at)
        const [sooner, later] = putsBackFirst === 'the first' ? [state, other] : [other, state]
        await sooner.putBack('acme', [{ ...b!, ...turn! }])
        assert.equal(await state.placeOf('acme', b!), undefined)
        // Nothing is known of it, and it stands before all others: the place of the turn is not there to be taken.
        const [unknown] = await other.turn('acme', [{ id: 'unknown', module: 'shop' }])
        assert.deepEqual([unknown!.passed, unknown!.at], [false, behindAt])
        await later.putBack('acme', [{ ...b!, ...turn! }])
        assert.equal(await state.placeOf('acme', b!), at, 'nobody writes it any more')
        assert.ok((await state.placeOf('acme', c!))! > behindAt)
      })

    it('gives a turn again for twenty seconds that one process puts back while the other one was killed', async () => {
      const { state, openState, entries, first, at, turn, until } = await openWithDeath(engine)
      const [, b, c, d] = entries
      await state.putBack('acme', [{ ...b!, ...turn }])
      assert.equal(await state.placeOf('acme', b!), undefined, 'the killed one may have written it')
      await until(at + 20_000)
      // When an end is remembered, what is older than twenty seconds is forgotten.
      await state.leave('acme', [{ id: 'e', module: 'shop' }])
      const third = openState()
      assert.deepEqual(await third.turn('acme', [b!]), [turn], 'a process that takes it over has it, too')
      assert.deepEqual(await state.turn('acme', [b!]), [turn])
      // They have waited, each for the next place, and none was taken by anybody else.
      const places = await Promise.all([c!, d!].map((each) => state.placeOf('acme', each)))
      assert.deepEqual(places, [at + slot, at + 2 * slot])
      assert.equal(densest([first, at, ...(places as number[])], windowMs), 1)
    })

    it('counts a turn of a killed process once, for one window, where nobody asks for it within twenty seconds', async () => {
      const { state, entries, first, at, turn, until } = await openWithDeath(engine)
      const [, b, c, d] = entries
      await state.putBack('acme', [{ ...b!, ...turn }])
      await until(at + 20_001)
      await state.leave('acme', [{ id: 'e', module: 'shop' }])
      await until(at + slot)
      const turned = [first]
      const take = async (entry: typeof b, passesAt: number) => {
        const [taken] = await state.turn('acme', [entry!])
        assert.deepEqual([taken!.passed, taken!.at], [true, passesAt])
        turned.push(taken!.at)
      }
      await take(c, at + slot)
      // Forgotten: it stands before all others, each of which has the place behind its own.
      const [late] = await state.turn('acme', [b!])
      assert.deepEqual([late!.passed, late!.at], [false, at + 2 * slot])
      assert.equal(await state.placeOf('acme', d!), at + 3 * slot)
      await until(at + 2 * slot)
      await take(b, at + 2 * slot)
      await until(at + 3 * slot)
      await take(d, at + 3 * slot)
      assert.equal(densest(turned, windowMs), 1)
      const { places } = (await state.pass('acme', [{ id: 'f', module: 'shop' }]))!
      assert.equal(places[0]!.at, at + 4 * slot, 'one place was lost, and no other one')
      assert.equal((await state.use('acme', 'shop'))[0]!.used, 1)
    })
  })
