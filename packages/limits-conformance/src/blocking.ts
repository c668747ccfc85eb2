/** Blocks, as every store must keep them: nothing of the subject goes before the end, whatever the limits say. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { limit } from '@sluice/limits'
import type { Open } from './fixture.ts'

const rules = [limit('five', '5/10s')]

export function exerciseBlocking(open: Open): void {
  describe('blocking', () => {
    it('refuses to take and to check until the end of the block, counts nothing, and says why', async (t) => {
      const { limits, world } = await open(t)
      const until = world.now + 3_000
      assert.equal(await limits.block('ada', 3_000), until)
      for (const decision of [await limits.take('ada', rules), await limits.check('ada', rules)]) {
        assert.deepEqual(
          [decision.allowed, decision.held, decision.at, decision.retryAfterMs, decision.firstAt],
          [false, false, until, 3_000, until],
        )
        assert.deepEqual([decision.blockedUntil, decision.limit, decision.refusedBy], [until, undefined, []])
        assert.equal(decision.rules[0]!.used, 0)
      }
      assert.equal((await limits.take('bob', rules)).blockedUntil, undefined)
      world.now = until
      const after = await limits.take('ada', rules)
      assert.deepEqual([after.allowed, after.blockedUntil, after.rules[0]!.used], [true, undefined, 0])
    })

    it('blocks a call without rules, one with an id, and several at once', async (t) => {
      const { limits } = await open(t)
      await limits.block('ada', 50)
      assert.equal((await limits.take('ada', [])).allowed, false)
      assert.equal((await limits.take('ada', rules, { id: 'n' })).allowed, false)
      const many = await limits.takeMany([
        { subject: 'ada', rules },
        { subject: 'bob', rules },
      ])
      assert.deepEqual(
        many.map(({ allowed }) => allowed),
        [false, true],
      )
    })

    it('books behind the block, and a booking inside it leaves at its end', async (t) => {
      const { limits, world } = await open(t)
      const before = await limits.reserve('ada', rules, { id: 'early', notBefore: world.now + 500 })
      const until = await limits.block('ada', 2_000)
      const forbidden = [{ from: until, to: until + 100 }]
      assert.equal((await limits.preview('ada', rules, { forbidden })).at, until + 100)
      assert.equal((await limits.reserve('ada', rules, { id: 'late' })).at, until)
      world.now = before.at
      const fired = await limits.fire('ada', 'early', rules)
      assert.deepEqual([fired.fired, fired.at, fired.blockedUntil], [false, until, until])
      world.now = until
      assert.equal((await limits.fire('ada', 'early', rules)).fired, true)
    })

    it('names the limit where that decides behind the block', async (t) => {
      const { limits, world } = await open(t)
      const one = [limit('one', '1/10s')]
      const { at } = await limits.take('ada', one)
      await limits.block('ada', 1_000)
      const decision = await limits.take('ada', one)
      assert.deepEqual([decision.at, decision.limit], [at + 10_000, 'one'])
      await limits.block('ada', 60_000)
      const longer = await limits.take('ada', one)
      assert.deepEqual([longer.at, longer.limit], [world.now + 60_000, undefined])
    })

    it('lets force pass, and counts it', async (t) => {
      const { limits } = await open(t)
      await limits.block('ada', 1_000)
      assert.equal((await limits.force('ada', 'f', rules)).fired, true)
      assert.equal((await limits.check('ada', rules)).rules[0]!.used, 1)
    })

    it('is replaced by the next block, lifted by unblock, and gone with everything else', async (t) => {
      const { limits, world } = await open(t)
      assert.equal(await limits.unblock('ada'), false)
      await limits.block('ada', 60_000)
      assert.equal(await limits.block('ada', 1_000), world.now + 1_000)
      assert.equal((await limits.check('ada', rules)).retryAfterMs, 1_000)
      assert.equal(await limits.unblock('ada'), true)
      assert.equal((await limits.take('ada', rules)).allowed, true)
      await limits.block('ada', 1_000)
      world.now += 1_000
      assert.equal(await limits.unblock('ada'), false)
      await limits.block('ada', 1_000)
      await limits.reset('ada')
      const { allowed, rules: rows } = await limits.check('ada', rules)
      assert.deepEqual([allowed, rows[0]!.used], [true, 0])
    })

    it('leaves the count as it was', async (t) => {
      const { limits, world } = await open(t)
      for (let call = 0; call < 3; call += 1) await limits.take('ada', rules)
      await limits.block('ada', 9_999)
      world.now += 9_999
      assert.equal((await limits.take('ada', rules)).rules[0]!.used, 3)
      world.now += 1
      assert.equal((await limits.take('ada', rules)).rules[0]!.used, 1)
    })

    it('tells how many may go now: the least of all windows, none while blocked or full', async (t) => {
      const { limits } = await open(t)
      const both = [
        limit('three', '3/min'),
        limit('many', '50/day'),
        limit('counts', '0/day', { over: 'count' }),
      ]
      assert.equal(await limits.remaining('ada', both), 3)
      await limits.take('ada', both)
      assert.equal(await limits.remaining('ada', both), 2)
      await limits.block('ada', 1_000)
      assert.equal(await limits.remaining('ada', both), 0)
      await limits.unblock('ada')
      for (let call = 0; call < 2; call += 1) await limits.take('ada', both)
      assert.equal(await limits.remaining('ada', both), 0)
      assert.equal(await limits.remaining('ada', []), Number.POSITIVE_INFINITY)
    })
  })
}
