/** Details of pools: windows of accounts, since when one is out, and what the pool carries. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { createRollingRate } from '../../../src/delivery/accounts/rate.ts'
import { Pool } from '../../../src/delivery/pools/pool.ts'
import { createScripted, delivered, throttled } from '../scripted.ts'

const start = 1_000_000

function poolOf(...rates: readonly string[]): Pool {
  return new Pool({
    channel: 'email',
    provider: createScripted(() => delivered).provider,
    accounts: rates.map((rate, index) => ({
      account: { id: 'abc'[index]!, options: {} },
      windows: rate === '' ? [] : rate.split(',').map((window) => parseWindow(window)),
      rate: rate || 'unlimited',
      concurrencyMax: 1_000,
    })),
    marginMs: 0,
    now: start,
  })
}

test('each window of an account shows its use and when it has a place again', () => {
  const pool = poolOf('2/s,3/min')
  const windows = (now: number) => pool.details(now).accounts[0]!.windows
  pool.lease(start, 2)
  assert.deepEqual(windows(start), [
    { window: '2/s', marginMs: 0, used: 2, max: 2, freesAt: start + 1_000 },
    { window: '3/min', marginMs: 0, used: 2, max: 3, freesAt: null },
  ])
  pool.lease(start + 1_000, 2)
  assert.deepEqual(windows(start + 1_000), [
    { window: '2/s', marginMs: 0, used: 1, max: 2, freesAt: null },
    { window: '3/min', marginMs: 0, used: 3, max: 3, freesAt: start + 60_000 },
  ])
  assert.equal(pool.details(start).accounts[0]!.inFlight, 3)
})

test('the use of a window equals a naive count, also of one that is counted in slices', () => {
  for (const text of ['7/300ms', '100/s', '50000/h']) {
    const window = parseWindow(text)
    const rate = createRollingRate([window], 0)
    const instants: number[] = []
    for (let now = start; now < start + 5_000; now += 37) {
      if (rate.freeAt(now) <= now) instants.push(rate.take(now))
      const used = instants.filter((instant) => instant > now - window.windowMs).length
      assert.deepEqual(
        rate.uses(now).map((use) => use.used),
        [used],
        text,
      )
    }
  }
})

test('an account that is out says since when, until when, and what its provider asked', () => {
  const pool = poolOf('100/s', '')
  const [lease] = pool.lease(start, 1)
  lease!.judge(start + 5, throttled('60'), 5)
  lease!.end()
  const details = (now: number) => pool.details(now).accounts[0]!
  const { outSince, outUntil, outBecause, retryAfter, perMinute } = details(start + 10)
  assert.deepEqual(
    [outSince, outUntil, outBecause, retryAfter, perMinute.rateLimited],
    [start + 5, start + 60_005, 'rate_limited', '60', 1],
  )
  pool.hold('a', start + 90_000, start + 20)
  assert.deepEqual(
    [details(start + 30).outSince, details(start + 30).outUntil, details(start + 30).outBecause],
    [start + 5, start + 90_000, 'hold'],
    'out since the 429',
  )
  const back = details(start + 90_000)
  assert.deepEqual([back.outSince, back.outUntil, back.retryAfter], [null, null, null])
  assert.deepEqual(
    pool.past('a', start + 90_000)!.changes.map(({ change, until }) => [change, until! - start]),
    [
      ['held', 90_000],
      ['blocked', 60_005],
    ],
  )
  const again = poolOf('100/s')
  const { holder } = pool.lease(start + 100_000, 2).find(({ account }) => account.id === 'a')!
  again.restore(start + 100, [pool.record(holder, start + 10)])
  assert.equal(again.details(start + 100).accounts[0]!.outSince, start + 5, 'also after a restart')
})

test('a pool carries the rate of the accounts that are in', () => {
  const pool = poolOf('100/s', '50/s')
  assert.deepEqual([pool.details(start).carries, pool.details(start).admits], [150, 150])
  pool.hold('a', start + 1_000, start)
  assert.equal(pool.details(start).carries, 50)
  assert.equal(poolOf('100/s', '').details(start).carries, null)
})
