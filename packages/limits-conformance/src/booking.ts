/** Booking, as every store must do it: reserve, preview, fire, cancel, and which reservations give way to which. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { limit, quotasOf, rateLimitField } from '@sluice/limits'
import type { Open } from './fixture.ts'

const minute = 60_000

export function exerciseBooking(open: Open): void {
  describe('booking', () => {
    it('books the earliest instant that everything admits, one behind the other', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('two', '2/min', { minGap: '5s' })]
      const at = []
      for (const id of ['a', 'b', 'c', 'd', 'e'])
        at.push((await limits.reserve('ada', rules, { id })).at - world.now)
      assert.deepEqual(at, [0, 5_000, minute, minute + 5_000, 2 * minute])
      const last = await limits.check('ada', rules)
      assert.deepEqual(
        last.rules.map(({ used, remaining, reserved }) => [used, remaining, reserved]),
        [
          [0, 2, 5],
          [0, 1, 5],
        ],
      )
    })

    it('finds the gap between bookings', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('gap', [], { minGap: '10s' })]
      const start = world.now
      await limits.reserve('ada', rules, { id: 'a', notBefore: start + 30_000 })
      assert.equal(
        (await limits.reserve('ada', rules, { id: 'b', notBefore: start + 21_000 })).at,
        start + 40_000,
      )
      assert.equal(
        (await limits.reserve('ada', rules, { id: 'c', notBefore: start + 12_000 })).at,
        start + 12_000,
      )
    })

    it('gives the same id the same instant and takes nothing for it', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('one', '1/min')]
      await limits.take('ada', rules)
      const first = await limits.reserve('ada', rules, { id: 'n1' })
      world.now += 1_000
      const again = await limits.reserve('ada', rules, { id: 'n1' })
      assert.deepEqual([again.at, again.held, again.limit], [first.at, true, 'one'])
      assert.equal((await limits.reserve('ada', rules, { id: 'n2' })).at, first.at + minute)
    })

    it('answers how many may go now besides bookings, and how many of them a window admits', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('five', '5/min')]
      const start = world.now
      for (const [id, afterMs] of [
        ['a', 10_000],
        ['b', 10_000],
        ['c', 70_000],
      ] as const)
        await limits.reserve('ada', rules, { id, notBefore: start + afterMs })
      assert.equal(await limits.remaining('ada', rules), 3)
      const first = await limits.take('ada', rules)
      assert.deepEqual([first.rules[0]!.remaining, first.rules[0]!.available], [4, 2])
      assert.equal(rateLimitField(quotasOf(rules, first), start), '"five";r=2;t=60')
      for (let left = 2; left > 0; left -= 1) {
        assert.equal(await limits.remaining('ada', rules), left)
        assert.equal((await limits.take('ada', rules)).allowed, true)
      }
      assert.equal(await limits.remaining('ada', rules), 0)
      assert.equal((await limits.take('ada', rules)).allowed, false)
      // The calls that were taken have left; two bookings were never fired, and the third is exactly a window behind them.
      world.now = start + 60_000
      assert.equal(await limits.remaining('ada', rules), 3)
    })

    it('previews the answer of reserve, and books nothing', async (t) => {
      const { limits } = await open(t)
      const rules = [limit('one', '1/min')]
      await limits.take('ada', rules)
      const preview = await limits.preview('ada', rules, { id: 'n1' })
      await limits.preview('ada', rules)
      assert.deepEqual(
        JSON.stringify(await limits.reserve('ada', rules, { id: 'n1' })),
        JSON.stringify(preview),
      )
      await limits.preview('eve', rules, { id: 'n1' })
      assert.equal(await limits.has('eve'), false)
    })

    it('gives a place back when it is cancelled, booked or gone', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('one', '1/min'), limit('day', '9/day', { stream: 'd' })]
      await limits.reserve('ada', rules, { id: 'n1' })
      assert.equal(await limits.cancel('ada', 'n1'), true)
      assert.equal(await limits.cancel('ada', 'n1'), false)
      assert.equal(await limits.has('ada'), false)
      await limits.take('ada', rules, { id: 'n2' })
      assert.deepEqual(
        await limits.cancelMany([
          { subject: 'ada', id: 'n2' },
          { subject: 'ada', id: 'n3' },
        ]),
        [true, false],
      )
      assert.equal((await limits.reserve('ada', rules, { id: 'n4' })).at, world.now)
    })

    it('waits for the end of forbidden hours, in any order and overlapping', async (t) => {
      const { limits, world } = await open(t)
      const { now } = world
      const forbidden = [
        { from: now + 5_000, to: now + 9_000 },
        { from: now + 20_000, to: now + 10_000 },
        { from: now - 1_000, to: now + 6_000 },
      ]
      const reserved = await limits.reserve('ada', [limit('two', '2/min')], { id: 'n1', forbidden })
      assert.deepEqual(
        [reserved.at, reserved.firstAt, reserved.limit, reserved.refusedBy],
        [now + 9_000, now + 9_000, undefined, []],
      )
    })

    it('spreads calls that waited inside an interval, and lets others use the time behind its end', async (t) => {
      const { limits, world } = await open(t)
      const { now } = world
      const forbidden = [{ from: now, to: now + 1_000, resumeAt: now + 1_700 }]
      const rules = [limit('many', '9/min')]
      assert.equal((await limits.reserve('ada', rules, { id: 'a', forbidden })).at, now + 1_700)
      assert.equal(
        (await limits.reserve('ada', rules, { id: 'b', forbidden, notBefore: now + 1_200 })).at,
        now + 1_200,
      )
    })

    it('answers an instant behind the horizon without holding it', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('one', '1/min')]
      await limits.take('ada', rules)
      const far = await limits.reserve('ada', rules, { id: 'n1', horizonMs: minute - 1 })
      assert.deepEqual([far.held, far.allowed, far.at], [false, false, world.now + minute])
      assert.equal((await limits.reserve('ada', rules, { id: 'n1', horizonMs: minute })).held, true)
      const later = { id: 'n2', notBefore: world.now + 2 * minute, horizonMs: 0 }
      assert.equal((await limits.reserve('ada', rules, later)).held, true)
      const never = await limits.reserve('ada', [limit('none', '0/s')], { id: 'n3' })
      assert.deepEqual([never.held, never.at, never.limit], [false, Infinity, 'none'])
    })

    it('refuses as a whole where a limit does not wait, and names every limit that refuses', async (t) => {
      const { limits, world } = await open(t)
      const drop = limit('drop', '1/min', { over: 'refuse' })
      const wait = limit('wait', '1/10s')
      await limits.take('ada', [drop, wait])
      const refused = await limits.reserve('ada', [wait, drop], { id: 'n1' })
      assert.deepEqual([refused.held, refused.limit, refused.refusedBy], [false, 'drop', ['wait', 'drop']])
      assert.equal(await limits.cancel('ada', 'n1'), false)
      // Judged at the first instant, which is when the window is free again.
      const later = await limits.reserve('ada', [drop], { id: 'n1', notBefore: world.now + minute })
      assert.deepEqual([later.held, later.refusedBy], [true, []])
    })

    it('lets limits that wait push on to where all admit, those too that would have refused', async (t) => {
      const { limits, world } = await open(t)
      const drop = limit('drop', '1/min', { over: 'refuse' })
      const wait = limit('wait', '1/10s')
      const { now } = world
      await limits.take('ada', [wait])
      await limits.reserve('ada', [drop], { id: 'later', notBefore: now + 65_000 })
      const pushed = await limits.reserve('ada', [drop, wait], { id: 'n1' })
      assert.deepEqual([pushed.held, pushed.at, pushed.limit], [true, now + 125_000, 'drop'])
      assert.deepEqual([pushed.firstAt, pushed.refusedBy], [now, ['wait']])
    })

    it('does not let a take into a window that is booked', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('gap', '1/10s')]
      await limits.reserve('ada', rules, { id: 'n1', notBefore: world.now + 5_000 })
      assert.deepEqual((await limits.take('ada', rules)).retryAfterMs, 15_000)
    })

    it('counts at release, and not before', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('one', '1/min')]
      await limits.reserve('ada', rules, { id: 'n1' })
      assert.equal((await limits.check('ada', rules)).rules[0]!.used, 0)
      world.now += 7
      const fired = await limits.fire('ada', 'n1', rules)
      assert.deepEqual([fired.fired, fired.at, fired.allowed], [true, world.now, true])
      assert.equal((await limits.check('ada', rules)).retryAfterMs, minute)
    })

    it('books an entry again whose release would break a window', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('gap', '1/10s')]
      await limits.reserve('ada', rules, { id: 'a' })
      await limits.reserve('ada', rules, { id: 'b' })
      world.now += 4_000
      await limits.fire('ada', 'a', rules)
      world.now += 6_000
      const early = await limits.fire('ada', 'b', rules)
      assert.deepEqual(
        [early.fired, early.held, early.at, early.limit],
        [false, true, world.now + 4_000, 'gap'],
      )
      world.now = early.at
      assert.equal((await limits.fire('ada', 'b', rules)).fired, true)
    })

    it('empties a line in its order, however late each leaves', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('gap', '1/10ms'), limit('many', '5/100ms', { stream: 'm' })]
      const waiting: { id: string; at: number }[] = []
      for (let place = 0; place < 30; place += 1) {
        const id = `n${place}`
        waiting.push({ id, at: (await limits.reserve('ada', rules, { id })).at })
      }
      const gone: string[] = []
      const instants: number[] = []
      for (let trials = 0; waiting.length > 0; trials += 1) {
        assert.ok(trials < 200, 'nobody waits for ever')
        waiting.sort((a, b) => a.at - b.at)
        const next = waiting.shift()!
        world.now = Math.max(world.now, next.at) + 1
        const answer = await limits.fire('ada', next.id, rules)
        if (answer.fired) {
          gone.push(next.id)
          instants.push(answer.at)
        } else waiting.push({ id: next.id, at: answer.at })
      }
      assert.equal(gone.length, 30)
      for (const from of instants) {
        assert.ok(instants.filter((at) => at >= from && at < from + 10).length <= 1)
        assert.ok(instants.filter((at) => at >= from && at < from + 100).length <= 5)
      }
    })

    it('releases an unknown id like a new one, and moves one that has gone', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('one', '1/min')]
      assert.equal((await limits.fire('ada', 'n1', rules)).fired, true)
      world.now += 10_000
      assert.equal((await limits.fire('ada', 'n1', rules)).fired, true)
      const other = await limits.fire('ada', 'n2', rules)
      assert.deepEqual([other.fired, other.at], [false, world.now + minute])
      const never = await limits.fire('ada', 'n1', [limit('none', '0/s')])
      assert.deepEqual([never.fired, never.held, never.at], [false, false, Infinity])
    })

    it('does not release into forbidden hours or before its time', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('one', '1/min')]
      const { now } = world
      const quiet = await limits.fire('ada', 'n1', rules, {
        forbidden: [{ from: now, to: now + 5_000, resumeAt: now + 6_000 }],
      })
      assert.deepEqual([quiet.fired, quiet.held, quiet.at], [false, true, now + 6_000])
      assert.equal((await limits.fire('ada', 'n1', rules, { notBefore: now + 9_000 })).at, now + 9_000)
    })

    it('counts a firm booking at its instant by itself', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('two', '2/min')]
      const bookings = []
      for (const id of ['a', 'b', 'c'])
        bookings.push(await limits.reserve('tenant', rules, { id, firm: true }))
      assert.deepEqual(
        bookings.map(({ at, fired }) => [at - world.now, fired]),
        [
          [0, true],
          [0, true],
          [minute, true],
        ],
      )
      assert.deepEqual(
        bookings.map(({ rules: [row] }) => [row!.used, row!.remaining, row!.reserved]),
        [
          [0, 1, 0],
          [1, 0, 0],
          [2, 0, 0],
        ],
      )
      world.now += minute
      const later = await limits.check('tenant', rules)
      assert.deepEqual([later.rules[0]!.used, later.rules[0]!.reserved], [1, 0])
    })

    it('keeps a line of firm bookings in order, however far ahead it reaches', async (t) => {
      const { limits, world } = await open(t)
      const max = 40
      const rules = [limit('many', `${max}/min`)]
      const ids = Array.from({ length: 12 * max }, (_, index) => `firm${index}`)
      const instants = []
      for (const id of ids) instants.push((await limits.reserve('tenant', rules, { id, firm: true })).at)
      assert.deepEqual(
        instants.map((at) => at - world.now),
        ids.map((_, index) => Math.floor(index / max) * minute),
      )
    })

    it('lets a high reservation take the places of low ones that are in its way, and of no others', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('one', '1/min')]
      for (const id of ['low1', 'low2']) await limits.reserve('ada', rules, { id, priority: 'low' })
      const preview = await limits.preview('ada', rules, { priority: 'high' })
      const high = await limits.reserve('ada', rules, { id: 'high', priority: 'high' })
      assert.deepEqual([preview.evicted, preview.at], [['low1'], world.now])
      assert.deepEqual([high.at, high.evicted], [world.now, ['low1']])
      assert.equal(
        (await limits.reserve('ada', rules, { id: 'low2' })).at,
        world.now + minute,
        'still where it was',
      )
      assert.equal(
        (await limits.reserve('ada', rules, { id: 'low1', priority: 'low' })).at,
        world.now + 2 * minute,
      )
      await limits.fire('ada', 'high', rules)
      assert.deepEqual((await limits.reserve('ada', rules, { id: 'high2', priority: 'high' })).evicted, [
        'low2',
      ])
      assert.deepEqual((await limits.reserve('ada', rules, { id: 'normal' })).evicted, [])
    })

    it('evicts a low one that was booked anew, and one in the way of a limit that refuses', async (t) => {
      const { limits, world } = await open(t)
      const wait = limit('wait', '1/min', { stream: 's' })
      await limits.take('ada', [wait])
      await limits.reserve('ada', [wait], { id: 'low', priority: 'low' })
      assert.equal((await limits.fire('ada', 'low', [wait])).at, world.now + minute)
      world.now += minute
      const urgent = { id: 'high', priority: 'high' } as const
      assert.deepEqual((await limits.reserve('ada', [wait], urgent)).evicted, ['low'])

      // Not in the way of the instant that the gap gives, but of the first one, at which the other limit is judged.
      const gap = limit('gap', '1/30s')
      const drop = limit('drop', '1/10s', { over: 'refuse', stream: 'd' })
      await limits.take('bob', [gap])
      await limits.reserve('bob', [drop], { id: 'low', priority: 'low', notBefore: world.now + 5_000 })
      const refused = await limits.reserve('bob', [gap, drop], { id: 'normal' })
      assert.deepEqual([refused.held, refused.limit], [false, 'drop'])
      const high = await limits.reserve('bob', [gap, drop], urgent)
      assert.deepEqual(
        [high.held, high.at, high.evicted, high.limit],
        [true, world.now + 30_000, ['low'], 'gap'],
      )
    })

    it('leaves low reservations alone where a high one gains nothing, and still names the limit that delays it', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('gap', '1/min')]
      const { now } = world
      await limits.take('ada', rules)
      await limits.reserve('ada', rules, { id: 'low', priority: 'low', notBefore: now + 90_000 })
      // Without the low one it would be a minute, which is beyond the horizon too.
      const high = await limits.reserve('ada', rules, { id: 'high', priority: 'high', horizonMs: 1_000 })
      assert.deepEqual([high.held, high.at, high.limit, high.evicted], [false, now + 150_000, 'gap', []])
      assert.equal((await limits.reserve('ada', rules, { id: 'low' })).at, now + 90_000)
    })

    it('survives a clock that steps back: counted instants then look like reservations', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('two', '2/min')]
      await limits.take('ada', rules)
      world.now -= 30_000
      const before = await limits.take('ada', rules)
      assert.deepEqual([before.allowed, before.rules[0]!.used, before.rules[0]!.reserved], [true, 0, 1])
      assert.equal((await limits.take('ada', rules)).retryAfterMs, minute)
    })

    it('books in many lines at once, each in its own subject', async (t) => {
      const { limits, world } = await open(t)
      const rules = [limit('one', '1/min')]
      const calls = ['ada', 'bob', 'ada'].map((subject, index) => ({ subject, rules, id: `n${index}` }))
      assert.deepEqual(
        (await limits.previewMany(calls)).map(({ at }) => at - world.now),
        [0, 0, 0],
      )
      assert.deepEqual(
        (await limits.reserveMany(calls)).map(({ at }) => at - world.now),
        [0, 0, minute],
      )
      assert.deepEqual(
        (await limits.fireMany(calls)).map(({ fired }) => fired),
        [true, true, false],
      )
    })
  })
}
