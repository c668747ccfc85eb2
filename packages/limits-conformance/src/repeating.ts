/** Repetition, as every store must treat it: an id that has gone moves, the decision says so, and a second id counts besides. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { limit } from '@sluice/limits'
import type { Open } from './fixture.ts'

export function exerciseRepeating(open: Open): void {
  describe('repeating', () => {
    it('moves an entry that has gone when it is fired or forced again, and says so', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('two', '2/min')]
      const first = await limits.fire('ada', 'n', rules)
      assert.deepEqual([first.fired, first.moved], [true, false])
      world.now += 10_000
      const again = await limits.fire('ada', 'n', rules)
      assert.deepEqual([again.fired, again.moved, again.at], [true, true, world.now])
      assert.equal((await limits.force('ada', 'n', rules)).moved, true)
      assert.equal((await limits.force('ada', 'other', rules)).moved, false)
      assert.equal((await limits.check('ada', rules)).rules[0]!.used, 2)
      // Asked again it is answered from what it holds, and nothing moves; nor where it is refused and booked anew.
      assert.equal((await limits.take('ada', rules, { id: 'n' })).moved, false)
      await limits.force('ada', 'third', rules)
      const refused = await limits.fire('ada', 'n', rules)
      assert.deepEqual([refused.fired, refused.moved], [false, false])
    })

    it('counts a repetition besides the first where it is forced under an id of its own', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('two', '2/min')]
      const { at } = await limits.fire('ada', 'n', rules)
      world.now += 1_000
      const repetition = await limits.force('ada', 'n#2', rules)
      assert.deepEqual([repetition.fired, repetition.moved], [true, false])
      assert.equal((await limits.take('ada', rules)).at, at + 60_000)
    })
  })
}
