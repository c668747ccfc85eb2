/** Upkeep, as every store must do it: restoring, forgetting, and agreeing with the model on random operations. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createLimits, limit } from '@sluice/limits'
import { compare } from './differential.ts'
import type { Capabilities, Open } from './fixture.ts'
import { modelStore } from './model.ts'
import { seededRandom, seedOfRun } from './random.ts'

/** A fresh store after so many operations: long enough for everything to meet, short enough to read a failure. */
const operationsPerRun = 200

export function exerciseUpkeep(open: Open, capabilities: Capabilities): void {
  const { operations = 20_000 } = capabilities

  describe('upkeep', () => {
    it('restores recorded entries, once, without touching known ids', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('two', '2/min', { stream: 's' })]
      const { now } = world
      await limits.take('ada', rules, { id: 'known' })
      const entries = [
        { id: 'known', at: now - 5_000, fired: true, streams: ['s'] },
        { id: 'gone', at: now - 1_000, fired: true, streams: ['s', 'other'] },
        { id: 'booked', at: now + 90_000, fired: false, streams: ['s'] },
      ]
      await limits.restore('ada', entries)
      await limits.restore('ada', entries)
      const { rules: rows, at } = await limits.check('ada', rules)
      assert.deepEqual([rows[0]!.used, rows[0]!.reserved, at], [2, 1, now + 59_000])
      assert.equal((await limits.reserve('ada', rules, { id: 'booked' })).at, now + 90_000)
      assert.equal((await limits.check('ada', [limit('o', '1/min', { stream: 'other' })])).allowed, false)
    })

    it('restores history before it has seen any rule, and loses nothing of it', async (t) => {
      const { limits, world } = await open(t)
      const entries = Array.from({ length: 400 }, (_, index) => ({
        id: `n${index}`,
        at: world.now - 400 + index,
        fired: true,
        streams: ['s'],
      }))
      await limits.restore('ada', entries)
      assert.equal((await limits.check('ada', [limit('l', '400/day', { stream: 's' })])).allowed, false)
    })

    it('restores into one of two streams that were always counted together', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('a', '3/min'), limit('b', '9/min')]
      for (let call = 0; call < 2; call += 1) await limits.take('ada', rules)
      await limits.restore('ada', [{ id: 'n1', at: world.now, fired: true, streams: ['a'] }])
      assert.deepEqual(
        (await limits.check('ada', rules)).rules.map(({ used }) => used),
        [3, 2],
      )
      const refused = await limits.take('ada', rules)
      assert.deepEqual([refused.allowed, refused.limit], [false, 'a'])
    })

    it('restores a weight', async (t) => {
      const { limits, world } = await open(t)
      await limits.restore('ada', [{ id: 'batch', at: world.now, fired: true, streams: ['s'], weight: 5 }])
      assert.equal((await limits.check('ada', [limit('l', '9/day', { stream: 's' })])).rules[0]!.used, 5)
      await limits.cancel('ada', 'batch')
      assert.equal((await limits.check('ada', [limit('l', '9/day', { stream: 's' })])).rules[0]!.used, 0)
    })

    it('forgets a subject, and says whether it knows one', async (t) => {
      const { limits } = await open(t)
      const rules = [limit('one', '1/day')]
      assert.equal(await limits.has('ada'), false)
      await limits.take('ada', rules)
      await limits.take('bob', rules)
      assert.equal(await limits.has('ada'), true)
      await limits.forget('ada')
      assert.deepEqual([await limits.has('ada'), await limits.has('bob')], [false, true])
      assert.equal((await limits.take('ada', rules)).allowed, true)
    })

    it(`agrees with the model in ${operations} random operations`, async (t) => {
      const seed = seedOfRun()
      t.diagnostic(`SLUICE_SEED=${seed}`)
      const { limits, world } = await open(t)
      for (let run = 0; run * operationsPerRun < operations; run += 1) {
        const model = createLimits({ store: modelStore({ now: () => world.now }) })
        const label = `SLUICE_SEED=${seed}, run ${run}`
        await compare(seededRandom(seed + run), world, operationsPerRun, [limits], model, label)
        for (const subject of ['ada', 'bob']) await limits.forget(subject)
        world.now += 1_000
      }
    })
  })
}
