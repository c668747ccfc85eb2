import assert from 'node:assert/strict'
import { it } from 'node:test'
import {
  createLimits,
  limit,
  memoryStore,
  quotasOf,
  rateLimitField,
  rateLimitPolicyField,
  retryAfterSeconds,
  tightest,
} from '../src/index.ts'

const start = Date.UTC(2026, 10, 21, 12)

it('the fields tell every window of a decision', () => {
  let now = start
  const { sync } = createLimits({ store: memoryStore({ now: () => now }) })
  const rules = [limit('api', '3/min'), limit('marketing', '2/day, 5/week', { minGap: '300ms' })]
  sync.take('user:42', rules)
  now += 17_400
  const quotas = quotasOf(rules, sync.take('user:42', rules))
  assert.equal(
    rateLimitPolicyField(quotas),
    '"api";q=3;w=60, "marketing-2/day";q=2;w=86400, "marketing-5/week";q=5;w=604800, "marketing-1/300ms";q=1;w=1',
  )
  // A window with places left says when the oldest entry leaves; one without, when a place frees.
  assert.equal(
    rateLimitField(quotas, now),
    '"api";r=1;t=43, "marketing-2/day";r=0;t=86383, "marketing-5/week";r=3;t=604783, "marketing-1/300ms";r=0;t=1',
  )
  assert.equal(tightest(quotas)?.name, 'marketing-2/day')
})

it('a window that never frees has no reset, and a limit that only counts is no quota', () => {
  const { sync } = createLimits({ store: memoryStore({ now: () => start }) })
  const rules = [limit('counted', '1/h', { over: 'count' }), limit('closed', '0/day')]
  const quotas = quotasOf(rules, sync.take('user:42', rules))
  assert.equal(rateLimitPolicyField(quotas), '"closed";q=0;w=86400')
  assert.equal(rateLimitField(quotas, start), '"closed";r=0')
})

it('a name cannot break out of its field', () => {
  const quota = { max: 1, windowMs: 1_000, remaining: 1, resetAt: start }
  const field = (name: string) => rateLimitPolicyField([{ ...quota, name }])
  assert.equal(field('a"b\\c'), '"a\\"b\\\\c";q=1;w=1')
  assert.equal(field('x\r\nset-cookie: a=b'), '"x%0D%0Aset-cookie: a=b";q=1;w=1')
  assert.equal(field('größe \u{1F4E7} \ud800'), '"gr%C3%B6%C3%9Fe %F0%9F%93%A7 %EF%BF%BD";q=1;w=1')
})

it('while a subject is blocked nothing is left, and the end of the block is when more is to be had', () => {
  const { sync } = createLimits({ store: memoryStore({ now: () => start }) })
  const rules = [limit('api', '1/min'), limit('calm', '9/s')]
  sync.take('user:42', rules)
  sync.block('user:42', 5_000)
  const quotas = quotasOf(rules, sync.take('user:42', rules))
  assert.equal(rateLimitField(quotas, start), '"api";r=0;t=60, "calm";r=0;t=5')
})

it('Retry-After is rounded up, and never 0', () => {
  assert.deepEqual([0, 1, 1_000, 1_001, 59_999].map(retryAfterSeconds), [1, 1, 1, 2, 60])
})

it('rules that the decision was not made by are refused', () => {
  const { sync } = createLimits()
  const decision = sync.take('user:42', [limit('one', '1/day')])
  assert.throws(() => quotasOf([limit('two', '1/day, 2/week')], decision), { code: 'INVALID_ARGUMENT' })
})
