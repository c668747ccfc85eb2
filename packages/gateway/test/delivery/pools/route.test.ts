import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWindow } from '@sluice/limits'
import type { Lease } from '../../../src/delivery/pools/lease.ts'
import { Pool, type PoolOptions } from '../../../src/delivery/pools/pool.ts'
import { Route } from '../../../src/delivery/pools/route.ts'
import { defaultRetryPolicy } from '../../../src/delivery/retry-policy.ts'
import type { Notification } from '../../../src/model.ts'
import type { SendResult } from '../../../src/ports.ts'
import { broken, createScripted, delivered, throttled } from '../scripted.ts'

const second = 1_000
const start = 1_000_000

/** A pool of accounts with the same rate, named by a prefix and a number. */
function poolOf(name: string, count: number, rate: string, more: Partial<PoolOptions> = {}): Pool {
  return new Pool({
    channel: 'email',
    provider: createScripted(() => delivered).provider,
    accounts: Array.from({ length: count }, (_, index) => ({
      account: { id: `${name}${index}`, options: {} },
      windows: rate === '' ? [] : [parseWindow(rate)],
      rate,
      concurrencyMax: 1_000,
    })),
    marginMs: 0,
    breaker: { failures: 0.5, of: 1, withinMs: 10_000, inARow: 10, coolDownMs: 5_000, coolDownMaxMs: 60_000 },
    now: start,
    ...more,
  })
}

const idsOf = (leases: readonly Lease[]): string[] => leases.map(({ account }) => account.id)

/** Makes one call of the pool with this result. */
function call(pool: Pool, now: number, result: SendResult): void {
  const [lease] = pool.lease(now, 1)
  lease!.judge(now, result, 1)
  lease!.end()
}

test('a whole, busy pool is waited for; the next is used for the overflow when accounts are out', () => {
  const [first, second_] = [poolOf('a', 2, '1/s'), poolOf('b', 2, '1/s')]
  const route = new Route([first, second_])
  const whole = route.lease(start, 5, 0)
  assert.deepEqual(idsOf(whole), ['a0', 'a1'])
  assert.equal(route.freeAt(start), start + second, 'the second is no place for it')
  whole[0]!.judge(start, throttled('60'), 1)
  assert.equal(route.freeAt(start), start)
  assert.deepEqual(idsOf(route.lease(start, 1, 0)), ['b0'])
  assert.deepEqual(idsOf(route.lease(start, 5, 0)), ['b1'])
  assert.equal(route.freeAt(start), start + second)
})

test('the last of three pools is used only when the second is not whole either, and never beyond the demand', () => {
  const [a, b, c] = [poolOf('a', 1, ''), poolOf('b', 2, ''), poolOf('c', 2, '')]
  const route = new Route([a, b, c])
  call(a, start, throttled('60'))
  assert.equal(route.lease(start, 3, 0).length, 3)
  assert.ok(idsOf(route.lease(start, 3, 0)).every((id) => id.startsWith('b')))
  call(b, start, throttled('60'))
  call(b, start, throttled('60'))
  assert.deepEqual(idsOf(route.lease(start, 3, 0)), ['c0', 'c1', 'c0'])
  // The rest of the first pool carries its share of the demand, the next one the remainder.
  const [part, rest] = [poolOf('d', 2, '10/s'), poolOf('e', 1, '')]
  call(part, start, throttled('60'))
  assert.deepEqual(idsOf(new Route([part, rest]).lease(start, 3, 0)), ['d1', 'e0', 'e0'])
})

test('places reserved for critical notifications are reserved in the next pool as well', () => {
  const [first, next] = [poolOf('a', 1, ''), poolOf('b', 1, '10/s', { criticalShare: 0.5 })]
  const route = new Route([first, next])
  call(first, start, throttled('60'))
  assert.equal(route.lease(start, 10, 1).length, 5)
  assert.equal(route.lease(start, 10, 0).length, 0)
  assert.equal(route.lease(start, 10, 3).length, 3)
})

test('calls keep their distance while several tenants take turns, until ten seconds after', () => {
  const route = new Route([poolOf('a', 1, '10/s')])
  const from = (tenant: string) => [{ tenant } as Notification]
  route.pulled(from('acme'), start)
  route.pulled(from('acme'), start)
  const fill = (now: number): number => route.lease(now, 100, 0).length
  assert.equal(fill(start), 10)
  assert.equal(fill(start + second), 10, 'one tenant takes what there is')
  route.pulled(from('other'), start + second)
  fill(start + second)
  assert.ok(fill(start + 2 * second) <= 1)
  const later = start + 12 * second
  assert.equal(fill(later), 10)
  assert.equal(fill(later + second), 10)
})

test('a lease is exchanged within its pool, else for one of another pool, and its place is free again', () => {
  const [first, next] = [poolOf('a', 2, '1/s'), poolOf('b', 1, '1/s')]
  const route = new Route([first, next])
  const [lease] = route.lease(start, 1, 0)
  const other = route.exchange(lease!, start)
  assert.equal(other.account.id, 'a1')
  assert.deepEqual(idsOf(first.lease(start, 5)), ['a0'])
  const elsewhere = route.exchange(other, start)
  assert.equal(elsewhere.account.id, 'b0')
  assert.deepEqual(idsOf(first.lease(start, 5)), ['a1'])
  assert.equal(route.exchange(elsewhere, start), elsewhere, 'no account is free')
})

test('another account can carry a notification as long as any account of any pool is healthy', () => {
  const [first, next] = [poolOf('a', 1, ''), poolOf('b', 2, '')]
  const route = new Route([first, next])
  const [lease] = route.lease(start, 1, 0)
  assert.equal(route.hasOther(lease!, start), true)
  call(next, start, throttled('60'))
  assert.deepEqual([route.hasOther(lease!, start), route.isEmpty(start)], [true, false], 'one of two is out')
  call(next, start, throttled('60'))
  assert.equal(route.hasOther(lease!, start), false)
})

test('the cause of death is shed while any account is left, then blocked, and broken if all accounts of all pools are', () => {
  const [first, next] = [poolOf('a', 1, ''), poolOf('b', 1, '')]
  const route = new Route([first, next])
  call(first, start, broken)
  assert.deepEqual([route.isReduced(start), route.isEmpty(start), route.cause(start)], [true, false, 'shed'])
  call(next, start, throttled('3'))
  assert.deepEqual([route.isEmpty(start), route.cause(start)], [true, 'pool_blocked'])
  call(next, start + 3 * second, broken)
  assert.equal(route.cause(start + 3 * second), 'circuit_open')
})

test('nothing is shed when load shedding is off', () => {
  assert.equal(new Route([poolOf('a', 1, '', { shedAfterMs: 7 })]).shedAfterMs, 7)
  assert.equal(new Route([poolOf('a', 1, '', { shedding: false })]).shedAfterMs, undefined)
})

test('a retry needs retry budget while calls fail, and none ten seconds later', () => {
  const pool = poolOf('a', 1, '', { retry: { ...defaultRetryPolicy, baseMs: 1, capMs: 1, budget: 0 } })
  const route = new Route([pool])
  const repeats = (now: number) =>
    Array.from({ length: 30 }, () => route.mayRepeat(now)).filter(Boolean).length
  assert.equal(repeats(start), 30)
  call(pool, start, { ...broken, recipientFault: true } as SendResult)
  assert.equal(repeats(start), 30)
  call(pool, start, broken)
  assert.equal(repeats(start), 10)
  assert.equal(repeats(start + second), 0)
  assert.equal(repeats(start + 11 * second), 30)
})
