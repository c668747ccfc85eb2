/** Retention: the time for which every store must keep what it knows, and when it must forget. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { limit } from '@sluice/limits'
import type { Open } from './fixture.ts'

const day = 86_400_000
const minute = 60_000

export function exerciseRetention(open: Open): void {
  describe('retention', () => {
    it('lets a subject go when the longest window that it was asked with is over', async (t) => {
      const { limits, world } = await open(t, 0)
      const rules = [limit('minute', '100/min'), limit('second', '5/s')]
      await limits.take('ada', rules)
      world.now += minute - 1
      assert.equal(await limits.has('ada'), true)
      world.now += 1
      assert.equal(await limits.has('ada'), false)
    })

    it('keeps a subject for the longest window of all that it was asked with', async (t) => {
      const { limits, world } = await open(t, 0)
      await limits.take('ada', [limit('hour', '9/h', { stream: 's' })])
      await limits.take('ada', [limit('second', '9/s', { stream: 's' })])
      world.now += minute
      assert.equal((await limits.check('ada', [limit('hour', '2/h', { stream: 's' })])).allowed, false)
      world.now += 60 * minute
      assert.equal(await limits.has('ada'), false)
    })

    it('keeps counted instants for the retention, for windows that grow later', async (t) => {
      const { limits, world } = await open(t, 3 * day)
      await limits.take('ada', [limit('l', '9/s', { stream: 's' })])
      world.now += 3 * day - 1
      assert.equal((await limits.check('ada', [limit('l', '1/week', { stream: 's' })])).allowed, false)
      world.now += 4 * day + 1
      assert.equal(await limits.has('ada'), false)
    })

    it('knows an id for as long as its instants are kept, and no longer', async (t) => {
      const { limits, world } = await open(t, 0)
      const rules = [limit('two', '2/min')]
      await limits.take('ada', rules, { id: 'n1' })
      world.now += minute - 1
      assert.equal((await limits.take('ada', rules, { id: 'n1' })).at, world.now - minute + 1)
      world.now += 1
      assert.equal(await limits.has('ada'), false)
    })

    it('keeps a booking until it is come for, and history that was restored before any window', async (t) => {
      const { limits, world } = await open(t, 0)
      await limits.reserve('ada', [limit('one', '1/s')], { id: 'n', notBefore: world.now + 2 * day })
      await limits.restore('bob', [{ id: 'r', at: world.now, fired: true, streams: ['s'] }])
      world.now += 20 * day
      assert.deepEqual([await limits.has('ada'), await limits.has('bob')], [true, true])
      const week = [limit('l', '1/month', { stream: 's' })]
      assert.equal((await limits.check('bob', week)).allowed, false)
      world.now += 32 * day
      assert.deepEqual([await limits.has('ada'), await limits.has('bob')], [false, false])
    })

    it('keeps a block until its end', async (t) => {
      const { limits, world } = await open(t, 0)
      await limits.take('ada', [limit('one', '1/s')])
      await limits.block('ada', 40 * day)
      world.now += 40 * day - 1
      assert.equal((await limits.check('ada', [])).allowed, false)
      world.now += day + 1
      assert.equal(await limits.has('ada'), false)
    })
  })
}
