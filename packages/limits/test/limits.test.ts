import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inspect } from 'node:util'
import {
  createLimits,
  LimitsError,
  limit,
  memoryBuckets,
  memorySlots,
  memoryStore,
  NotificationRateLimiter,
  type ReserveOptions,
} from '../src/index.ts'

const start = Date.UTC(2026, 10, 21)
const rules = [limit('two', '2/day')]
const refusing = (code: string, reason: RegExp) => (error: unknown) =>
  error instanceof LimitsError && error.code === code && reason.test(error.message)

describe('createLimits', () => {
  it("needs no options: the state is then in memory and the clock is the machine's", async () => {
    const before = Date.now()
    const decision = await createLimits().take('ada', rules)
    assert.ok(decision.allowed && decision.at >= before && decision.at <= Date.now())
  })

  it('answers the same with and without promises', async () => {
    const one = createLimits({ store: memoryStore({ now: () => start }) })
    const other = createLimits({ store: memoryStore({ now: () => start }) }).sync
    const both = [
      [await one.take('a', rules), other.take('a', rules)],
      [await one.reserve('a', rules, { id: 'n' }), other.reserve('a', rules, { id: 'n' })],
      [await one.reserve('a', rules, { id: 'm' }), other.reserve('a', rules, { id: 'm' })],
      [await one.preview('a', rules, { id: 'm' }), other.preview('a', rules, { id: 'm' })],
      [await one.fire('a', 'n', rules), other.fire('a', 'n', rules)],
      [await one.check('a', rules), other.check('a', rules)],
      [await one.force('a', 'f', rules), other.force('a', 'f', rules)],
      [await one.cancel('a', 'm'), other.cancel('a', 'm')],
      [await one.restore('a', []), other.restore('a', [])],
      [await one.remaining('a', rules), other.remaining('a', rules)],
      [await one.block('a', 5), other.block('a', 5)],
      [await one.take('a', rules), other.take('a', rules)],
      [await one.unblock('a'), other.unblock('a')],
      [await one.has('a'), other.has('a')],
      [await one.reset('a'), other.reset('a')],
      [await one.forget('a'), other.forget('a')],
      [await one.has('a'), other.has('a')],
    ]
    for (const [is, should] of both) assert.equal(JSON.stringify(is), JSON.stringify(should))
  })

  it('refuses an invalid subject, id, weight, instant, interval, entry or rule, and counts nothing', async () => {
    const limits = createLimits({ store: memoryStore({ now: () => start }) })
    const reserve = (options: object) => limits.reserve('a', rules, { id: 'n', ...options } as ReserveOptions)
    const wrong: [() => Promise<unknown>, RegExp][] = [
      [() => limits.take('', rules), /subject/],
      [() => limits.take(7 as unknown as string, rules), /subject/],
      [() => limits.take('x'.repeat(1_025), rules), /1025/],
      [() => limits.take('a', rules, { id: '' }), /id/],
      [() => limits.take('a', rules, { weight: 0 }), /weight/],
      [() => limits.take('a', rules, { weight: 1.5 }), /weight/],
      [() => limits.reserve('a', rules, {} as ReserveOptions), /id/],
      [() => limits.reserve('a', rules, undefined as unknown as ReserveOptions), /id/],
      [() => reserve({ notBefore: Number.NaN }), /notBefore/],
      [() => reserve({ notBefore: Number.POSITIVE_INFINITY }), /notBefore/],
      [() => reserve({ horizonMs: -1 }), /horizonMs/],
      [() => reserve({ priority: 'urgent' }), /priority/],
      [() => reserve({ firm: 1 }), /firm/],
      [() => reserve({ forbidden: {} }), /forbidden/],
      [() => reserve({ forbidden: [{ from: 0 }] }), /forbidden/],
      [() => limits.fire('a', '', rules), /id/],
      [() => limits.force('a', undefined as unknown as string, rules), /id/],
      [() => limits.cancel('a', ''), /id/],
      [() => limits.cancelMany([{ subject: '', id: 'n' }]), /subject/],
      [
        () =>
          limits.takeMany([
            { subject: 'a', rules },
            { subject: '', rules },
          ]),
        /subject/,
      ],
      [() => limits.block('', 5), /subject/],
      [() => limits.block('a', 0), /block/],
      [() => limits.block('a', -1), /block/],
      [() => limits.block('a', 1.5), /block/],
      [() => limits.block('a', Number.NaN), /block/],
      [() => limits.block('a', Number.POSITIVE_INFINITY), /100 years/],
      [() => limits.unblock(''), /subject/],
      [() => limits.remaining('', rules), /subject/],
      [() => limits.reset(''), /subject/],
      [() => limits.restore('a', [{ id: 'n', at: 1.5, fired: true, streams: ['s'] }]), /whole epoch/],
      [() => limits.restore('a', [{ id: 'n', at: 1, fired: true, streams: [''] }]), /streams/],
      [() => limits.restore('a', [{ id: 'n', at: 1, fired: true, streams: [], weight: 0 }]), /weight/],
      // Half of a character has no bytes of its own: in Redis all such subjects would be one.
      [() => limits.take('a\ud800', rules), /half of a character/],
      [() => limits.take('a', rules, { id: '\udc00' }), /half of a character/],
      [() => limits.restore('a', [{ id: 'n', at: 1, fired: true, streams: ['\ud800'] }]), /streams/],
      [() => limits.takeMany('calls' as never), /calls are a list/],
      [() => limits.fireMany([null] as never), /calls are a list/],
      [() => limits.cancelMany(undefined as never), /places are a list/],
      [() => limits.restore('a', {} as never), /entries are a list/],
      [() => reserve({ forbidden: [null as never] }), /forbidden/],
      [() => reserve({ notBefore: Symbol('soon') as never }), /notBefore/],
      [() => limits.take('a', rules, { weight: Symbol('one') as never }), /weight/],
      [() => limits.take('a', rules, null as never), /options are an object/],
      [() => limits.fire('a', 'id', rules, 5 as never), /options are an object/],
    ]
    for (const [call, reason] of wrong) await assert.rejects(call, refusing('INVALID_ARGUMENT', reason))
    assert.equal(await limits.has('a'), false)
  })

  it('refuses rules that do not go together', async () => {
    const limits = createLimits()
    const twice = [limit('a', '1/s'), limit('a', '2/min')]
    await assert.rejects(limits.take('a', twice), refusing('INVALID_RULES', /'a'/))
    const unmade = {
      name: 'x',
      stream: 'x',
      windows: [{ max: -1, windowMs: 5, text: '-1/5ms' }],
      over: 'delay',
      countRefused: false,
    } as const
    await assert.rejects(limits.take('a', [unmade]), refusing('INVALID_WINDOW', /-1/))
    const day = 86_400_000
    const windows: [max: number, windowMs: number][] = [
      [Number.NaN, day],
      [1.5, day],
      [Number.POSITIVE_INFINITY, day],
      [1_000_001, day],
      [1, 0],
      [1, -1],
      [1, 1.5],
      [1, Number.NaN],
      [1, 366 * day + 1],
    ]
    for (const [max, windowMs] of windows) {
      const rule = { ...unmade, windows: [{ max, windowMs, text: `${max}/${windowMs}ms` }] }
      await assert.rejects(limits.take('a', [rule]), refusing('INVALID_WINDOW', /is needed|is possible/))
    }
    await assert.rejects(
      limits.take('a', [{ ...unmade, windows: [] }]),
      refusing('INVALID_RULES', /rules\[0\]/),
    )
    const half = { ...limit('x', '1/s'), stream: '\ud800' }
    await assert.rejects(limits.take('a', [half]), refusing('INVALID_RULES', /rules\[0\]/))
    await assert.rejects(limits.take('a', [{}] as never), refusing('INVALID_RULES', /rules\[0\]/))
    await assert.rejects(limits.take('a', undefined as never), refusing('INVALID_RULES', /list/))
  })

  it('lets a maximum of 0 refuse everything, in every kind of call', async () => {
    const limits = createLimits({ store: memoryStore({ now: () => start }) })
    const never = [limit('never', '0/day'), limit('two', '2/day')]
    const decisions = [
      await limits.take('a', never),
      await limits.check('a', never),
      await limits.reserve('a', never, { id: 'n' }),
      await limits.fire('a', 'n', never),
    ]
    for (const { allowed, held, at, limit: name } of decisions)
      assert.deepEqual([allowed, held, at, name], [false, false, Number.POSITIVE_INFINITY, 'never'])
    assert.equal(await limits.remaining('a', never), 0)
    assert.equal(await limits.remaining('a', [never[1]!]), 2)
  })

  it("refuses a margin and a store's options that make no sense", () => {
    for (const marginMs of [-1, 1.5, Number.NaN])
      assert.throws(() => createLimits({ marginMs }), refusing('INVALID_ARGUMENT', /marginMs/))
    for (const store of [null, 5, { eval: () => undefined }])
      assert.throws(() => createLimits({ store: store as never }), refusing('INVALID_ARGUMENT', /redisStore/))
    const makers: readonly ((options: never) => unknown)[] = [
      createLimits,
      memoryStore,
      memoryBuckets,
      memorySlots,
      (options) => new NotificationRateLimiter(options),
    ]
    for (const make of makers) {
      for (const options of [null, 5, 'memory', []])
        assert.throws(
          () => make(options as never),
          refusing('INVALID_ARGUMENT', /options are an object with/),
        )
      assert.throws(() => make({ stor: 1 } as never), refusing('INVALID_ARGUMENT', /no option 'stor'[,;]/))
    }
    assert.throws(() => memoryStore({ retentionMs: -1 }), refusing('INVALID_ARGUMENT', /retentionMs/))
    assert.throws(() => memoryStore({ now: 5 as never }), refusing('INVALID_ARGUMENT', /now/))
    const { sync } = createLimits({ store: memoryStore({ now: () => Number.NaN }) })
    assert.throws(() => sync.take('a', rules), refusing('INVALID_CLOCK', /NaN/))
  })

  it('sees when an array of rules has changed since the last call', () => {
    const { sync } = createLimits({ store: memoryStore({ now: () => start }) })
    const changing = [limit('a', '5/day')]
    for (let call = 0; call < 3; call += 1) sync.take('ada', changing)
    changing[0] = limit('a', '3/day')
    assert.equal(sync.take('ada', changing).allowed, false)
    changing.push(limit('b', '1/day'))
    assert.equal(sync.check('ada', changing).rules.length, 2)
  })

  it('takes arrays of rules that are made for each call', () => {
    const { sync } = createLimits({ store: memoryStore({ now: () => start }) })
    const allowed = Array.from(
      { length: 40 },
      (_, call) => sync.take('ada', [limit('a', '30/day'), limit(`b${call % 20}`, '2/day')]).allowed,
    )
    assert.equal(allowed.filter(Boolean).length, 30)
  })

  it('writes a decision as JSON with its rules', () => {
    const { sync } = createLimits({ store: memoryStore({ now: () => start }) })
    const decision = JSON.parse(JSON.stringify(sync.take('ada', rules)))
    assert.equal(decision.allowed, true)
    assert.deepEqual(
      decision.rules.map(({ window, remaining }: { window: string; remaining: number }) => [
        window,
        remaining,
      ]),
      [['2/day', 1]],
    )
  })

  it('shows a decision in the console with its rules', () => {
    const { sync } = createLimits({ store: memoryStore({ now: () => start }) })
    const decision = sync.take('ada', rules)
    assert.match(inspect(decision), /allowed: true[\s\S]*window: '2\/day'/)
  })
})
