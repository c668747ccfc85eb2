/** Turns of throttle queues in Redis that several processes are given, and that are put back. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { ThrottlePlace } from '../../../../src/ports/tenants.ts'
import { engines } from './open.ts'
import { openThrottle as open } from './open-throttle.ts'

const marginMs = 20

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

    it('keeps a turn that one process puts back while another one, which was given it too, may be writing it', async () => {
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
      assert.deepEqual([turn!.at, repeated!.at], [at, at])
      await other.putBack('acme', [{ ...b!, ...repeated! }])
      assert.equal(await state.placeOf('acme', b!), undefined)
      // Nothing is known of it, and it stands before all others: the place of the turn is not there to be taken.
      const [unknown] = await other.turn('acme', [{ id: 'unknown', module: 'shop' }])
      assert.deepEqual([unknown!.passed, unknown!.at], [false, behindAt])
      await state.putBack('acme', [{ ...b!, ...turn! }])
      assert.equal(await state.placeOf('acme', b!), at, 'nobody writes it any more')
      assert.ok((await state.placeOf('acme', c!))! > behindAt)
    })
  })
