/** A pool with an account that an operator took out. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWindow } from '@sluice/limits'
import type { Lease } from '../../../src/delivery/pools/lease.ts'
import { Pool, type PoolOptions } from '../../../src/delivery/pools/pool.ts'
import { createHarness } from '../../harness.ts'
import { broken, createScripted, delivered, throttled } from '../scripted.ts'

const start = 1_000_000

/** Creates a pool of accounts named a, b, …, with 100 calls per second each; one failed call opens a breaker. */
function poolOf(count: number, more: Partial<PoolOptions> = {}): Pool {
  return new Pool({
    channel: 'email',
    provider: createScripted(() => delivered).provider,
    accounts: ['a', 'b'].slice(0, count).map((id) => ({
      account: { id, options: {} },
      windows: [parseWindow('100/s')],
      rate: '100/s',
      concurrencyMax: 1_000,
    })),
    marginMs: 0,
    breaker: { failures: 0.5, of: 1, withinMs: 10_000, inARow: 10, coolDownMs: 5_000, coolDownMaxMs: 60_000 },
    now: start,
    ...more,
  })
}

const idsOf = (leases: readonly Lease[]): string[] => leases.map(({ account }) => account.id)
const statuses = (pool: Pool, now: number) => pool.report(now).accounts.map(({ status }) => status)

test('a held account gets no call before its end, whatever else happened to it', () => {
  const pool = poolOf(2, { shedding: false })
  assert.equal(pool.hold('b', start + 8_000, start), true)
  assert.equal(pool.hold('nobody', start + 8_000, start), false)
  assert.deepEqual(idsOf(pool.lease(start, 3)), ['a', 'a', 'a'])
  assert.deepEqual(statuses(pool, start), ['healthy', 'held'])
  const { outUntil, outBecause } = pool.report(start).accounts[1]!
  assert.deepEqual([outUntil, outBecause], [start + 8_000, 'hold'])
  assert.deepEqual(idsOf(pool.lease(start + 7_999, 3)), ['a', 'a', 'a'])
  assert.deepEqual(new Set(idsOf(pool.lease(start + 8_000, 4))), new Set(['a', 'b']))
  assert.deepEqual(statuses(pool, start + 8_000), ['healthy', 'healthy'])
})

test('a held account is back at once when its hold is ended', () => {
  const pool = poolOf(1)
  pool.hold('a', start + 60_000, start)
  assert.deepEqual([pool.lease(start, 1), pool.freeAt(start)], [[], start + 60_000])
  pool.hold('a', 0, start + 1)
  assert.equal(pool.freeAt(start + 1), start + 1)
  assert.deepEqual(idsOf(pool.lease(start + 1, 1)), ['a'])
})

test('a held account that is broken besides is probed only after its hold', () => {
  const pool = poolOf(2)
  const [first] = pool.lease(start, 1)
  first!.judge(start, broken, 1)
  first!.end()
  pool.hold('a', start + 9_000, start + 1)
  assert.ok(!idsOf(pool.lease(start + 8_000, 5)).includes('a'), 'its cool-down is over, its hold is not')
  assert.equal(pool.report(start + 8_000).accounts[0]!.status, 'held')
  const leases = pool.lease(start + 9_000, 5)
  assert.ok(leases.some(({ account, probe }) => account.id === 'a' && probe))
})

test('a held account that a provider blocks for longer stays out for that long', () => {
  const pool = poolOf(1)
  const [lease] = pool.lease(start, 1)
  pool.hold('a', start + 1_000, start)
  lease!.judge(start, throttled('5'), 1)
  lease!.end()
  assert.deepEqual(pool.freeAt(start), start + 5_000)
  const { status, outUntil, outBecause } = pool.report(start).accounts[0]!
  assert.deepEqual([status, outUntil, outBecause], ['held', start + 5_000, 'rate_limited'])
})

test('a held account sheds its share once: neither a second hold nor a 429 on top sheds more', () => {
  const pool = poolOf(2)
  const carries = () => pool.load(start).admittedPerSecond
  const [a] = pool.lease(start, 1)
  pool.hold('a', start + 60_000, start)
  const once = carries()
  assert.equal(once, 100)
  pool.hold('a', start + 90_000, start)
  a!.judge(start, throttled('5'), 1)
  a!.end()
  assert.equal(carries(), once)
  pool.hold('a', 0, start)
  assert.equal(carries(), once, 'still blocked')
})

test('an account is out until the last of its holds is over', async () => {
  const harness = await createHarness({ policy: { version: 1, limits: [] } })
  const { channel, accounts } = harness.gateway.pools()[0]!
  const of = { channel, account: accounts[0]!.id, reason: 'r' }
  for (const [name, until] of [
    ['short', harness.start + 1_000],
    ['long', harness.start + 60_000],
  ] as const)
    await harness.done(harness.gateway.holds.put({ ...of, name, until }))
  await harness.runFor(5_000)
  assert.equal(harness.gateway.pools()[0]!.accounts[0]!.status, 'held')
  await harness.runFor(60_000)
  assert.equal(harness.gateway.pools()[0]!.accounts[0]!.status, 'healthy')
  await harness.stop()
})
