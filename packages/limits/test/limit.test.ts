import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LimitsError } from '../src/errors.ts'
import { type LimitOptions, limit, onStream } from '../src/limit.ts'

const refused = (code: string, reason: RegExp) => (error: unknown) =>
  error instanceof LimitsError && error.code === code && reason.test(error.message)

describe('limit', () => {
  it('counts its own stream, waits, and does not count refusals, unless told otherwise', () => {
    const plain = limit('marketing', '2/day, 5/week')
    assert.deepEqual(
      [plain.stream, plain.over, plain.countRefused, plain.windows.length],
      ['marketing', 'delay', false, 2],
    )
    const told = limit('m', ['2/day'], { stream: 's', over: 'refuse', countRefused: true })
    assert.deepEqual([told.stream, told.over, told.countRefused], ['s', 'refuse', true])
  })

  it('keeps a minimum distance as one more window', () => {
    assert.deepEqual(
      { ...limit('a', '2/s', { minGap: '300ms' }).windows[1] },
      { max: 1, windowMs: 300, text: '1/300ms' },
    )
    assert.equal(limit('a', [], { minGap: 250 }).windows[0]!.text, '1/250ms')
  })

  it('is frozen through and through', () => {
    const { windows } = limit('a', '2/s', { minGap: '3ms' })
    for (const value of [limit('a', '1/s'), windows, windows[0], windows[1]])
      assert.ok(Object.isFrozen(value))
  })

  it('moves to another stream with everything else', () => {
    const author = onStream(limit('author', '3/day', { over: 'refuse' }), 'author:7')
    assert.deepEqual([author.name, author.stream, author.over], ['author', 'author:7', 'refuse'])
    assert.throws(() => onStream(author, ''), refused('INVALID_LIMIT', /stream/))
  })

  it('is refused where it is written, with its name and the reason', () => {
    assert.throws(() => limit('', '2/day'), refused('INVALID_LIMIT', /name/))
    assert.throws(() => limit('x'.repeat(513), '2/day'), refused('INVALID_LIMIT', /513/))
    assert.throws(() => limit('promo', '2.5/day'), refused('INVALID_WINDOW', /'promo'.*2\.5\/day/))
    assert.throws(() => limit('promo', []), refused('INVALID_LIMIT', /no window/))
    assert.throws(() => limit('promo', ''), refused('INVALID_WINDOW', /promo/))
    assert.throws(() => limit('promo', '1/s', { minGap: 0 }), refused('INVALID_WINDOW', /1\/0ms.*0 ms/))
    assert.throws(() => limit('promo', '1/s', { minGap: '-3s' }), refused('INVALID_DURATION', /promo/))
    assert.throws(() => limit('promo', '1/s', { stream: '' }), refused('INVALID_LIMIT', /stream/))
    const odd = (options: unknown) => () => limit('promo', '1/s', options as LimitOptions)
    assert.throws(odd({ over: 'drop' }), refused('INVALID_LIMIT', /over/))
    assert.throws(odd({ countRefused: 'yes' }), refused('INVALID_LIMIT', /countRefused/))
    assert.throws(odd({ mingap: '3s' }), refused('INVALID_LIMIT', /mingap/))
    assert.throws(odd(null), refused('INVALID_LIMIT', /options/))
  })

  it('is refused with two windows of one length, however they are written', () => {
    const reason = (first: string, second: string) =>
      new RegExp(`'a': '${first}' and '${second}' are equally long`)
    for (const [first, second] of [
      ['2/day', '2/day'],
      ['2/day', '3/day'],
      ['2/day', '3/24h'],
      ['5/60min', '4/1h'],
    ] as const) {
      assert.throws(
        () => limit('a', [first, '9/week', second]),
        refused('INVALID_WINDOW', reason(first, second)),
      )
      assert.throws(() => limit('a', `${first}, ${second}`), refused('INVALID_WINDOW', reason(first, second)))
    }
  })

  it('lets the tighter decide where a window is as long as the distance', () => {
    const textsOf = (windows: string, minGap: string) =>
      limit('a', windows, { minGap }).windows.map(({ text }) => text)
    assert.deepEqual(textsOf('5/s, 9/min', '1000ms'), ['9/min', '1/1000ms'])
    assert.deepEqual(textsOf('1/s', '1s'), ['1/1s'])
    assert.deepEqual(textsOf('0/s, 9/min', '1s'), ['0/s', '9/min'])
  })
})
