/**
 * The conformance suite of what the limits of recipients count without being asked: `exerciseForcedCounts` runs it on any
 * state.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { limit } from '@sluice/limits'
import type { LimitRequest, LimitState, Subject } from '../ports.ts'
import type { OpenLimits } from './limits.ts'

const second = 1_000
const one = [limit('one', '1/10s', { stream: 'all' })]
const two = [limit('two', '2/10s', { stream: 'all' })]
const windowMs = 10 * second + 20
const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const bob: Subject = { key: 'acme/bob', tenant: 'acme', recipient: 'bob' }

/** Registers the suite `name` with node:test. `open` gives a state that knows nothing, with a margin of 20 ms. */
export function exerciseForcedCounts(name: string, open: () => OpenLimits | Promise<OpenLimits>): void {
  const request = (id: string, subject = ada, rules = one): LimitRequest => ({ subject, id, rules })
  const placeOf = async (state: LimitState, id: string, subject = ada, rules = one) =>
    (await state.reserve([request(id, subject, rules)]))[0]!.at
  const fire = async (state: LimitState, id: string) => (await state.fire([request(id)]))[0]!

  describe(name, () => {
    it('counts without asking what is forced', async () => {
      const { state, now } = await open()
      const start = now()
      await state.force([request('1'), request('2')])
      assert.equal(await placeOf(state, '3'), start + windowMs)
    })

    it('counts at an instant to come what is forced for it, also where it counts already', async () => {
      const { state, now, until } = await open()
      const start = now()
      assert.equal((await fire(state, '1')).fired, true)
      await state.force([{ ...request('1'), at: start + 100 }])
      assert.deepEqual(await fire(state, '2'), { fired: false, at: start + 100 + windowMs })
      await until(start + 100)
      assert.equal(await placeOf(state, '3'), start + 100 + 2 * windowMs)
      await until(start + 100 + windowMs)
      assert.equal((await fire(state, '2')).fired, true)
      await state.force([{ ...request('4', bob), at: now() - 1 }])
      assert.equal(await placeOf(state, '5', bob), now() + windowMs, 'one that has passed is now')
    })

    it('counts again only in subjects that are filled', async () => {
      const { state, now, record, reads } = await open()
      const start = now()
      await state.recount([request('1?0')])
      assert.equal(reads.length, 0)
      record.set(ada.key, { entries: [{ id: '1?0', at: start, fired: true, streams: ['all'] }] })
      assert.equal(await placeOf(state, '2'), start + windowMs)
      await state.recount([request('1?0', bob, two)])
      await placeOf(state, '3', bob, two)
      await state.recount([request('4?0', bob, two)])
      assert.equal(await placeOf(state, '5', bob, two), start + windowMs)
    })
  })
}
