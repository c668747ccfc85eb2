/** Counting, as every store must do it: take, check, force, and the rows of their decisions. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Decision } from '@sluice/limits'
import { createLimits, limit } from '@sluice/limits'
import type { Open } from './fixture.ts'

const day = 86_400_000
const minute = 60_000

export function exerciseCounting(open: Open): void {
  describe('counting', () => {
    it('admits N, and the next exactly W after the first', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('three', '3/10s')]
      const first = world.now
      for (const at of [first, first + 1_000, first + 9_999]) {
        world.now = at
        assert.equal((await limits.take('ada', rules)).allowed, true)
      }
      const refused = await limits.take('ada', rules)
      assert.deepEqual(
        [refused.allowed, refused.held, refused.at, refused.retryAfterMs, refused.limit],
        [false, false, first + 10_000, 1, 'three'],
      )
      world.now = first + 10_000
      assert.equal((await limits.take('ada', rules)).allowed, true)
      assert.equal((await limits.take('ada', rules)).at, first + 11_000)
    })

    it('lets no burst through at the edge of any fixed window', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('ten', '10/s')]
      const admitted: number[] = []
      for (let tick = 0; tick < 300; tick += 1) {
        world.now += 7
        if ((await limits.take('ada', rules)).allowed) admitted.push(world.now)
      }
      for (const from of admitted) {
        assert.ok(admitted.filter((at) => at >= from && at < from + 1_000).length <= 10)
      }
      assert.ok(admitted.length >= 20, 'the windows were used')
    })

    it('takes from all windows or from none: three of ten pass a category inside a whole', async (t) => {
      const { limits } = await open(t)
      const rules = [limit('category', '3/60s'), limit('global', '10/60s')]
      const sent = []
      for (let attempt = 0; attempt < 10; attempt += 1) sent.push(await limits.take('ada', rules))
      assert.equal(sent.filter((decision) => decision.allowed).length, 3)
      const global = await limits.check('ada', [rules[1]!])
      assert.equal(global.rules[0]!.used, 3)
    })

    it('counts one stream once for all limits that share it', async (t) => {
      const { limits } = await open(t)
      await limits.take('ada', [limit('a', '5/min', { stream: 's' }), limit('b', '5/h', { stream: 's' })])
      assert.equal((await limits.check('ada', [limit('c', '5/day', { stream: 's' })])).rules[0]!.used, 1)
    })

    it('keeps a distance, several windows, and names the limit that decides', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('pace', '10/min, 2/3s', { minGap: '300ms' })]
      await limits.take('ada', rules)
      world.now += 299
      assert.deepEqual((await limits.take('ada', rules)).retryAfterMs, 1)
      world.now += 1
      assert.equal((await limits.take('ada', rules)).allowed, true)
      world.now += 300
      const third = await limits.take('ada', rules)
      assert.deepEqual([third.allowed, third.retryAfterMs, third.limit], [false, 2_400, 'pace'])
    })

    it('limits authors one by one within a limit on all of them', async (t) => {
      const { limits } = await open(t)
      const from = (author: string) => [
        limit('author', '3/day', { stream: `by:${author}` }),
        limit('activity', '5/day'),
      ]
      const results: boolean[] = []
      for (const author of ['7', '7', '7', '7', '8', '8', '8']) {
        results.push((await limits.take('ada', from(author))).allowed)
      }
      assert.deepEqual(results, [true, true, true, false, true, true, false])
    })

    it('counts refused calls only where a limit says so', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('login', '2/10s', { countRefused: true }), limit('all', '100/10s')]
      await limits.take('ada', rules)
      await limits.take('ada', rules)
      world.now += 4_000
      const refused = await limits.take('ada', rules)
      // The attempt itself is now one of the newest two, so it is the older of them that has to leave.
      assert.deepEqual(
        [refused.allowed, refused.retryAfterMs, refused.rules[0]!.used, refused.rules[0]!.remaining],
        [false, 6_000, 2, 0],
      )
      assert.equal((await limits.take('ada', rules)).retryAfterMs, 10_000)
      assert.equal((await limits.check('ada', [rules[1]!])).rules[0]!.used, 2)
    })

    it('counts a refused call once in each stream that says so', async (t) => {
      const { limits } = await open(t)
      const rules = [limit('a', '1/s', { countRefused: true }), limit('b', '9/min', { countRefused: true })]
      for (let call = 0; call < 3; call += 1) await limits.take('ada', rules)
      assert.deepEqual(
        (await limits.check('ada', rules)).rules.map(({ used }) => used),
        [3, 3],
      )
    })

    it('refuses for ever where the count is 0 or below the weight', async (t) => {
      const { limits } = await open(t)
      const never = await limits.take('ada', [limit('none', '0/day')])
      assert.deepEqual(
        [never.allowed, never.at, never.retryAfterMs, never.limit],
        [false, Infinity, Infinity, 'none'],
      )
      assert.equal(never.rules[0]!.freesAt, Infinity)
      assert.equal((await limits.take('ada', [limit('two', '2/day')], { weight: 3 })).at, Infinity)
      assert.equal(await limits.has('ada'), false)
    })

    it('counts a weight at once or not at all', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('five', '5/min')]
      await limits.take('ada', rules, { weight: 2 })
      world.now += 1_000
      await limits.take('ada', rules, { weight: 2 })
      assert.equal((await limits.take('ada', rules, { weight: 2 })).retryAfterMs, 59_000)
      assert.equal((await limits.take('ada', rules)).allowed, true)
    })

    it('counts an id once, however often it is taken', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('two', '2/day')]
      const at = world.now
      for (let repetition = 0; repetition < 4; repetition += 1) {
        const decision = await limits.take('ada', rules, { id: 'n1' })
        assert.deepEqual(
          [decision.allowed, decision.at, decision.rules[0]!.used, decision.rules[0]!.remaining],
          [true, at, 0, 1],
        )
        world.now += 1_000
      }
    })

    it('turns a booking into a count when its id is taken', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('one', '1/min')]
      await limits.take('ada', rules)
      await limits.reserve('ada', rules, { id: 'n1' })
      assert.equal((await limits.take('ada', rules, { id: 'n1' })).retryAfterMs, minute)
      assert.equal(
        (await limits.reserve('ada', rules, { id: 'n1' })).at,
        world.now + minute,
        'the booking is still there',
      )
      world.now += minute
      assert.equal((await limits.take('ada', rules, { id: 'n1' })).allowed, true)
      assert.equal((await limits.check('ada', rules)).rules[0]!.used, 1)
    })

    it('forces without asking, and limits later calls', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('one', '1/min')]
      await limits.take('ada', rules)
      world.now += 10_000
      assert.equal((await limits.force('ada', 'critical', rules)).allowed, true)
      assert.equal((await limits.check('ada', rules)).retryAfterMs, minute)
      world.now += 10_000
      await limits.force('ada', 'critical', rules)
      assert.deepEqual(
        (await limits.check('ada', rules)).rules.map(({ used, remaining }) => [used, remaining]),
        [[2, 0]],
        'moved, not doubled',
      )
    })

    it('lets everything pass a limit that only counts, and limits others by it', async (t) => {
      const { limits } = await open(t)
      const strict = limit('one', '1/min')
      const counting = { ...strict, over: 'count' } as const
      for (let call = 0; call < 3; call += 1) {
        const decision = await limits.take('ada', [counting])
        assert.deepEqual([decision.allowed, decision.refusedBy, decision.limit], [true, [], undefined])
        const { used, max, remaining, freesAt } = decision.rules[0]!
        assert.deepEqual([used, max, remaining, freesAt], [call, 1, 0, decision.at])
      }
      assert.equal((await limits.take('ada', [strict])).allowed, false)
    })

    it('answers check without leaving anything', async (t) => {
      const { limits } = await open(t)
      const rules = [limit('one', '1/day')]
      for (let time = 0; time < 3; time += 1) {
        const decision = await limits.check('ada', rules)
        assert.deepEqual([decision.allowed, decision.held, decision.rules[0]!.remaining], [true, false, 1])
      }
      assert.equal(await limits.has('ada'), false)
    })

    it('explains every window, as it stood before and as it stands after', async (t) => {
      const { limits, world } = await open(t)
      const rules = [
        limit('m', '2/day, 5/week', { stream: 's' }),
        limit('all', '100/30min', { minGap: '300ms' }),
      ]
      const first = world.now
      await limits.take('ada', rules)
      world.now += 1_000
      const { now } = world
      const decision = await limits.take('ada', rules)
      const row = { reserved: 0, admits: true, used: 1 }
      assert.deepEqual(decision.rules, [
        {
          ...row,
          limit: 'm',
          window: '2/day',
          max: 2,
          remaining: 0,
          available: 0,
          freesAt: first + day,
          resetAt: first + day,
        },
        {
          ...row,
          limit: 'm',
          window: '5/week',
          max: 5,
          remaining: 3,
          available: 3,
          freesAt: now,
          resetAt: first + 7 * day,
        },
        {
          ...row,
          limit: 'all',
          window: '100/30min',
          max: 100,
          remaining: 98,
          available: 98,
          freesAt: now,
          resetAt: first + 30 * minute,
        },
        {
          ...row,
          limit: 'all',
          window: '1/300ms',
          max: 1,
          used: 0,
          remaining: 0,
          available: 0,
          freesAt: now + 300,
          resetAt: now + 300,
        },
      ])
    })

    it('names all limits that refuse, and the one that decides', async (t) => {
      const { limits } = await open(t)
      const rules = [limit('short', '1/s'), limit('long', '1/min'), limit('free', '9/s')]
      await limits.take('ada', rules)
      const decision = await limits.take('ada', rules)
      assert.deepEqual([decision.refusedBy, decision.limit], [['short', 'long'], 'long'])
      assert.deepEqual(
        decision.rules.map((row) => row.admits),
        [false, false, true],
      )
    })

    it('does not change a decision by later calls, though its rows are read late', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('a', '4/min'), limit('b', '9/min', { stream: 's' })]
      const first = world.now
      const early = await limits.take('ada', rules, { id: 'n1' })
      world.now += 5
      const kept = await limits.take('ada', rules)
      // The history before it changes: something is taken out, something put before it, more behind it.
      await limits.cancel('ada', 'n1')
      await limits.force('ada', 'n2', rules)
      world.now -= 3
      await limits.take('ada', rules)
      world.now += 10 * minute
      for (let call = 0; call < 3; call += 1) await limits.take('ada', rules)
      const seen = ({ rules }: Decision) =>
        rules.map(({ used, remaining, resetAt }) => [used, remaining, resetAt - first])
      assert.deepEqual(seen(early), [
        [0, 3, minute],
        [0, 8, minute],
      ])
      assert.deepEqual(seen(kept), [
        [1, 2, minute],
        [1, 7, minute],
      ])
    })

    it('applies changed limits to the history that exists', async (t) => {
      const { limits, world } = await open(t)
      for (let call = 0; call < 4; call += 1) {
        await limits.take('ada', [limit('l', '9/min', { stream: 's' })])
        world.now += 1_000
      }
      assert.equal((await limits.check('ada', [limit('l', '4/min', { stream: 's' })])).allowed, false)
      assert.equal((await limits.check('ada', [limit('l', '5/min', { stream: 's' })])).allowed, true)
      world.now += 2 * day
      assert.equal((await limits.check('ada', [limit('l', '4/week', { stream: 's' })])).allowed, false)
    })

    it('remembers enough of a busy stream for twice the count, or 128', async (t) => {
      const { limits, world } = await open(t)
      const narrow = [limit('l', '50/50ms', { stream: 's' })]
      for (let call = 0; call < 700; call += 1) {
        world.now += 1
        assert.equal((await limits.take('ada', narrow)).allowed, true)
      }
      assert.equal((await limits.check('ada', [limit('l', '128/day', { stream: 's' })])).allowed, false)
    })

    it('keeps subjects apart, whatever they and their streams are called', async (t) => {
      const { limits } = await open(t)
      const names = [
        'a',
        'a:b',
        'a:b:',
        '{a}',
        'a b',
        '«ä»',
        '🜁',
        'a\n',
        '__proto__',
        'constructor',
        '0',
        ' ',
      ]
      for (const subject of names) {
        for (const stream of names) {
          const rules = [limit('one', '1/day', { stream })]
          assert.equal(
            (await limits.take(subject, rules, { id: stream })).allowed,
            true,
            JSON.stringify([subject, stream]),
          )
          assert.equal((await limits.take(subject, rules)).allowed, false)
        }
      }
    })

    it('keeps each window a margin longer, and reports it as it was written', async (t) => {
      const { store, world } = await open(t)
      const limits = createLimits({ store, marginMs: 20 })
      const rules = [limit('one', '1/s')]
      await limits.take('ada', rules)
      world.now += 1_019
      const refused = await limits.take('ada', rules)
      assert.deepEqual([refused.allowed, refused.retryAfterMs, refused.rules[0]!.window], [false, 1, '1/s'])
      world.now += 1
      assert.equal((await limits.take('ada', rules)).allowed, true)
    })

    it('admits no more than N of many calls at once', async (t) => {
      const { limits } = await open(t)
      const rules = [
        limit('a', '50/min'),
        limit('b', '10/2min', { stream: 'b' }),
        limit('c', '40/h', { stream: 'c' }),
      ]
      const decisions = await Promise.all(Array.from({ length: 64 }, () => limits.take('ada', rules)))
      assert.equal(decisions.filter((decision) => decision.allowed).length, 10)
      assert.deepEqual(
        (await limits.check('ada', rules)).rules.map((row) => row.used),
        [10, 10, 10],
      )
    })

    it('answers many in one call, in their order', async (t) => {
      const { limits } = await open(t)
      const rules = [limit('two', '2/day')]
      const calls = ['ada', 'bob', 'ada', 'ada', 'bob'].map((subject) => ({ subject, rules }))
      const decisions = await limits.takeMany(calls)
      assert.deepEqual(
        decisions.map((decision) => decision.allowed),
        [true, true, true, false, true],
      )
      assert.deepEqual(await limits.takeMany([]), [])
    })
  })
}
