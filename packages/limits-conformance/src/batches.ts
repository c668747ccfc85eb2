/** Weights, as every store must count them: a batch of a million like one of three, and as cheaply. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { limit } from '@sluice/limits'
import type { Open } from './fixture.ts'

const minute = 60_000
const million = 1_000_000

export function exerciseBatches(open: Open): void {
  describe('batches', () => {
    it('are counted at once or not at all, up to the largest there is', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('mails', `${million}/h`), limit('calls', '600000/min', { stream: 'b' })]
      const first = world.now
      assert.equal((await limits.take('ada', rules, { weight: 600_000 })).allowed, true)
      const refused = await limits.take('ada', rules, { weight: 400_001 })
      assert.deepEqual([refused.at, refused.limit], [first + 60 * minute, 'mails'])
      const later = await limits.take('ada', rules, { weight: 400_000 })
      assert.deepEqual([later.at, later.limit, later.refusedBy], [first + minute, 'calls', ['calls']])
      world.now += minute
      const taken = await limits.take('ada', rules, { weight: 400_000 })
      assert.deepEqual(
        taken.rules.map(({ used, remaining, available }) => [used, remaining, available]),
        [
          [600_000, 0, 0],
          [0, 200_000, 200_000],
        ],
      )
      assert.equal((await limits.take('ada', rules)).at, first + 60 * minute)
      assert.equal((await limits.take('eve', [rules[0]!], { weight: million })).allowed, true)
    })

    it('find their instant between others, and go as they were booked', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('mails', '10000/min')]
      const start = world.now
      for (const [id, weight, at] of [
        ['a', 6_000, 0],
        ['b', 5_000, minute],
        ['c', 4_000, 0],
        ['d', 1, minute],
        ['e', 9_999, 2 * minute],
      ] as const)
        assert.equal((await limits.reserve('ada', rules, { id, weight })).at, start + at, id)
      assert.equal(await limits.remaining('ada', rules), 0)
      assert.equal(await limits.cancel('ada', 'c'), true)
      assert.equal(await limits.remaining('ada', rules), 4_000)
      const fired = await limits.fire('ada', 'a', rules)
      assert.deepEqual(
        [fired.fired, fired.rules[0]!.remaining, fired.rules[0]!.reserved],
        [true, 4_000, 15_000],
      )
      world.now += minute
      for (const id of ['b', 'd']) assert.equal((await limits.fire('ada', id, rules)).fired, true)
      const early = await limits.fire('ada', 'e', rules)
      assert.deepEqual([early.fired, early.at, early.limit], [false, start + 2 * minute, 'mails'])
    })

    it('stand beside single ones, and leave them as they were', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('a', '5000/10s'), limit('b', '9000/min', { stream: 'b' })]
      const used = async () => (await limits.check('ada', rules)).rules.map((row) => row.used)
      for (let call = 0; call < 5; call += 1) await limits.take('ada', rules, { id: `n${call}` })
      await limits.take('ada', rules, { id: 'batch', weight: 4_000 })
      world.now += 1_000
      for (let call = 0; call < 5; call += 1) await limits.take('ada', rules)
      assert.deepEqual(await used(), [4_010, 4_010])
      assert.equal(await limits.cancel('ada', 'n2'), true)
      assert.equal(await limits.cancel('ada', 'batch'), true)
      assert.deepEqual(await used(), [9, 9])
      assert.equal((await limits.take('ada', rules, { weight: 4_991 })).allowed, true)
      assert.equal((await limits.take('ada', rules)).at, world.now + 9_000)
      world.now += 9_000
      assert.deepEqual(await used(), [4_996, 5_000])
      await limits.restore('ada', [{ id: 'r', at: world.now, fired: true, streams: ['a'], weight: 4 }])
      assert.equal((await limits.take('ada', rules)).allowed, false)
    })

    it('are counted where they were refused, and forced, like single ones', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('strict', '1000/min', { countRefused: true }), limit('all', '5000/min')]
      await limits.force('ada', 'f', rules, { weight: 900 })
      world.now += 1_000
      assert.equal((await limits.take('ada', rules, { weight: 500 })).at, world.now - 1_000 + minute)
      assert.deepEqual(
        (await limits.check('ada', rules)).rules.map(({ used }) => used),
        [1_400, 900],
      )
      world.now += 1_000
      await limits.force('ada', 'f', rules, { weight: 900 })
      assert.deepEqual(
        (await limits.check('ada', rules)).rules.map(({ used }) => used),
        [1_400, 900],
        'moved, not doubled',
      )
    })
  })
}
