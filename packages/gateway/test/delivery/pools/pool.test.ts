import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseWindow } from '@sluice/limits'
import type { Lease } from '../../../src/delivery/pools/lease.ts'
import { Pool, type PoolOptions } from '../../../src/delivery/pools/pool.ts'
import { SluiceError } from '../../../src/errors.ts'
import type { AccountRecord, Provider, SendResult } from '../../../src/ports.ts'
import { broken, createScripted, delivered, throttled } from '../scripted.ts'

const second = 1_000
const start = 1_000_000
const breaker = {
  failures: 0.5,
  of: 1,
  withinMs: 10_000,
  inARow: 10,
  coolDownMs: 5_000,
  coolDownMaxMs: 60_000,
}

interface Setup extends Partial<PoolOptions> {
  /** True if calls report when they are written. */
  readonly tells?: boolean
  readonly concurrency?: number
}

/** Creates a pool of accounts named a, b, c … with these rates; ’’ is unlimited. */
function poolOf(rates: readonly string[], { concurrency = 1_000, tells = false, ...more }: Setup = {}): Pool {
  return new Pool({
    channel: 'email',
    provider: { ...createScripted(() => delivered).provider, tellsWritten: tells },
    accounts: rates.map((rate, index) => ({
      account: { id: String.fromCharCode(97 + index), options: {} },
      windows: rate === '' ? [] : [parseWindow(rate)],
      rate: rate || 'unlimited',
      concurrencyMax: concurrency,
    })),
    marginMs: 0,
    breaker,
    now: start,
    ...more,
  })
}

const idsOf = (leases: readonly Lease[]): string[] => leases.map(({ account }) => account.id)

/** Makes one call with this result. */
function call(pool: Pool, now: number, result: SendResult, id?: string): void {
  const leases = pool.lease(now, 1)
  while (id !== undefined && leases.at(-1)?.account.id !== id) {
    const [next] = pool.lease(now, 1)
    assert.ok(next !== undefined, `a lease of ${id}`)
    leases.push(next)
  }
  const lease = leases.pop()
  assert.ok(lease !== undefined, 'a lease')
  for (const other of leases) other.undo()
  lease.judge(now, result, 1)
  lease.end()
}

const statuses = (pool: Pool, now: number) => pool.report(now).accounts.map(({ status }) => status)

describe('a lease', () => {
  test('goes round the accounts, and one that is undone is available to the next', () => {
    const pool = poolOf(['1/s', '1/s'])
    const leases = pool.lease(start, 5)
    assert.deepEqual(idsOf(leases), ['a', 'b'])
    assert.equal(pool.freeAt(start), start + second)
    leases[1]!.undo()
    assert.equal(pool.freeAt(start), start)
    assert.deepEqual(idsOf(pool.lease(start, 5)), ['b'])
  })

  test('of an account with a concurrency of one goes to the next notification when it has ended', () => {
    const pool = poolOf([''], { concurrency: 1 })
    const [lease] = pool.lease(start, 5)
    assert.deepEqual([pool.lease(start, 5), pool.freeAt(start), pool.inFlight], [[], undefined, 1])
    lease!.end()
    assert.equal(pool.lease(start, 5).length, 1)
  })

  test('counts at the instant of writing, however often that is delayed', () => {
    const pool = poolOf(['1/s'])
    const [lease] = pool.lease(start, 1)
    lease!.left(start + 200)
    lease!.left(start + 400)
    assert.equal(pool.freeAt(start + 400), start + 1_400)
  })

  test('keeps its place as long as its call may still be on its way, and counts when it is answered', () => {
    const pool = poolOf(['1/s'], { tells: true })
    const [lease] = pool.lease(start, 1)
    assert.equal(pool.lease(start + second, 1).length, 0, 'it may leave only now')
    lease!.left(start + second)
    assert.equal(pool.lease(start + 2 * second, 1).length, 0, 'it may arrive only now')
    lease!.judge(start + 2_500, delivered, 2_500)
    lease!.end()
    assert.equal(pool.lease(start + 3 * second, 1).length, 0)
    assert.equal(pool.freeAt(start + 3 * second), start + 3_500)
    const [next] = pool.lease(start + 3_500, 1)
    next!.left(start + 3_500)
    next!.judge(start + 3_510, delivered, 10)
    assert.equal(pool.freeAt(start + 3_510), start + 4_510)
  })

  test('of an account with slow answers costs no places when that is usual', () => {
    const pool = poolOf(['1/s'], { tells: true })
    let at = start
    for (let call = 0; call < 40; call += 1) {
      const [lease] = pool.lease(at, 1)
      lease!.left(at)
      lease!.judge(at + 400, delivered, 400)
      lease!.end()
      at = pool.freeAt(at + 400)!
    }
    const [lease] = pool.lease(at, 1)
    lease!.left(at)
    lease!.judge(at + 400, delivered, 400)
    assert.equal(pool.freeAt(at + 400), at + second)
  })

  test('is exchanged for one of another account, whose place it leaves, or not at all', () => {
    const pool = poolOf(['1/s', '1/s'])
    const [lease] = pool.lease(start, 1)
    const other = pool.exchange(lease!, start)
    assert.equal(other.account.id, 'b')
    assert.deepEqual(idsOf(pool.lease(start, 5)), ['a'])
    assert.equal(pool.exchange(other, start), other, 'no other account is free')
    const alone = poolOf([''])
    const [only] = alone.lease(start, 1)
    assert.equal(alone.exchange(only!, start), only)
  })

  test('knows whether another account of the pool is healthy', () => {
    const pool = poolOf(['', ''])
    const [a, b] = pool.lease(start, 2)
    assert.equal(a!.hasOther(), true)
    a!.judge(start, throttled('60'), 1)
    assert.deepEqual([a!.hasOther(), b!.hasOther()], [true, false])
  })
})

describe('what is kept for critical ones', () => {
  test('is theirs alone while there are any, and free for them again when a call has ended', () => {
    const pool = poolOf([''], { concurrency: 4, criticalShare: 0.5 })
    const urgent = pool.lease(start, 1, 1)
    assert.equal(pool.lease(start, 5, 0).length, 1, 'two places are kept')
    assert.equal(pool.lease(start, 5, 2).length, 2, 'for these')
    assert.equal(pool.lease(start, 5, 2).length, 0)
    urgent[0]!.end()
    assert.equal(pool.lease(start, 5, 0).length, 0)
    assert.equal(pool.lease(start, 5, 1).length, 1)
  })

  test('is no more than they are', () => {
    const pool = poolOf(['10/s'], { criticalShare: 0.5 })
    assert.equal(pool.lease(start, 10, 1).length, 5, 'the critical one is among the five')
    assert.equal(pool.lease(start, 10, 2).length, 2)
  })

  test('is lent to all at once when the last of them is ten seconds past', () => {
    const pool = poolOf(['10/min'])
    pool.lease(start, 1, 1)
    assert.equal(pool.lease(start, 20).length, 8)
    const before = start + 10 * second - 1
    assert.equal(pool.lease(before, 20).length, 0)
    assert.equal(pool.lease(before + 2, 20).length, 1)
  })
})

describe('accounts that are out', () => {
  test('are blocked to the millisecond, each for itself', () => {
    const pool = poolOf(['', ''])
    call(pool, start, throttled('5'), 'a')
    assert.equal(pool.condition(start), 'reduced')
    call(pool, start, throttled('10'), 'b')
    assert.deepEqual([pool.condition(start), pool.freeAt(start)], ['blocked', start + 5 * second])
    assert.deepEqual(pool.lease(start + 4_999, 5), [])
    assert.equal(pool.condition(start + 5 * second), 'reduced')
    assert.deepEqual(idsOf(pool.lease(start + 5 * second, 1)), ['a'])
    assert.equal(pool.condition(start + 10 * second), 'whole')
  })

  test('are broken only where all of them fail', () => {
    const pool = poolOf(['', ''])
    call(pool, start, broken, 'a')
    call(pool, start, throttled('60'), 'b')
    assert.equal(pool.condition(start), 'blocked')
    assert.equal(pool.condition(start + 60 * second), 'reduced')
    call(pool, start + 60 * second, broken, 'b')
    assert.equal(pool.condition(start + 60 * second), 'broken')
  })

  test('are probed with what is asked for and no more, each once, from the earliest end of a cool-down on', () => {
    const pool = poolOf(['', '', ''])
    call(pool, start, broken, 'a')
    call(pool, start, broken, 'b')
    call(pool, start + second, broken, 'c')
    assert.equal(pool.freeAt(start + second), start + 5 * second)
    assert.deepEqual(idsOf(pool.lease(start + 5 * second, 1)), ['a'])
    assert.deepEqual(idsOf(pool.lease(start + 5 * second, 5)), ['b'])
    assert.deepEqual(
      [pool.lease(start + 5 * second, 5), pool.freeAt(start + 5 * second)],
      [[], start + 6_000],
    )
  })

  test('whose probe was not made after all are probed by the next', () => {
    const pool = poolOf([''])
    call(pool, start, broken)
    const [probe] = pool.lease(start + 5 * second, 1)
    assert.deepEqual(statuses(pool, start + 5 * second), ['half_open'])
    probe!.undo()
    assert.equal(pool.freeAt(start + 5 * second), start + 5 * second)
    call(pool, start + 5 * second, delivered)
    assert.deepEqual(statuses(pool, start + 5 * second), ['healthy'])
    assert.equal(pool.lease(start + 5 * second, 5).length, 5)
  })
})

describe('while accounts are out', () => {
  /** Makes calls evenly over ten seconds, and as many that are undone. */
  function carry(pool: Pool, calls: number): number {
    for (let index = 0; index < calls; index += 1) {
      const now = start + Math.round((index * 10 * second) / calls)
      const [lease, undone] = pool.lease(now, 2)
      undone?.undo()
      lease!.judge(now, delivered, 1)
      lease!.end()
    }
    return start + 10 * second
  }

  test('the rest admits its share of what was carried, of which what was undone or refused is no part', () => {
    const pool = poolOf(['', ''])
    const now = carry(pool, 40)
    const { shedding } = pool
    call(pool, now, throttled('60'), 'a')
    // 40 in 10 s, of which the slice under way is not over; half of the pool is left.
    assert.ok(Math.abs(shedding.admitted(now) - 2) < 0.2, `${shedding.admitted(now)}`)
    let left = 0
    for (let at = now; at < now + 60 * second; at += 50) {
      const leases = pool.lease(at, 10)
      leases.pop()?.undo()
      const [lease] = pool.lease(at, 1)
      if (lease === undefined) continue
      left += 1
      lease.judge(at, delivered, 1)
      lease.end()
    }
    assert.ok(Math.abs(left - 120) < 12, `${left} in a minute`)
  })

  test('a call that was refused is no part of what is carried', () => {
    const pool = poolOf(['', ''])
    carry(pool, 3)
    const now = start + 10 * second - 1
    call(pool, now, throttled('0'), 'a')
    call(pool, now, throttled('60'), 'a')
    assert.ok(pool.shedding.admitted(now) <= (0.5 * 3) / 9.4, `${pool.shedding.admitted(now)}`)
  })

  test('an account counts by its rate, and one without a rate as much as the largest', () => {
    const pool = poolOf(['90/s', '10/s'])
    call(pool, start, throttled('60'), 'b')
    assert.ok(Math.abs(pool.shedding.admitted(start) - 90) < 1e-9)
    const mixed = poolOf(['100/s', ''])
    const now = carry(mixed, 100)
    call(mixed, now, throttled('60'), 'b')
    assert.ok(Math.abs(mixed.shedding.admitted(now) - 5) < 0.5, `${mixed.shedding.admitted(now)}`)
  })

  test('the next instant is that at which an account is free and one is admitted', () => {
    const pool = poolOf(['1/s', '1/s'])
    const [, b] = pool.lease(start, 2)
    b!.judge(start, throttled('60'), 1)
    assert.equal(pool.freeAt(start), start + second)
    const wide = poolOf(['2/s', '2/s'])
    call(wide, start, broken, 'b')
    assert.equal(wide.lease(start, 5).length, 1)
    assert.equal(wide.freeAt(start), start + 500, 'two a second')
    // Also while the other is being probed.
    const at = start + 5 * second
    const leases = wide.lease(at, 5)
    assert.deepEqual(idsOf(leases), ['a', 'b'])
    assert.ok(wide.freeAt(at)! > at)
    leases[1]!.undo()
    assert.equal(wide.freeAt(at), at, 'and at once where it was not')
    assert.deepEqual(idsOf(wide.lease(at, 5)), ['b'])
  })
})

test('listeners hear when an account goes out or comes back, and of records only when an account waited for them', () => {
  const asked: string[] = []
  const pool = poolOf(['2/s', '4/3s'], { keep: (_, account) => asked.push(account.account.id) })
  let news = 0
  pool.onNews(() => {
    news += 1
  })
  call(pool, start, delivered, 'a')
  assert.equal(news, 0)
  call(pool, start, throttled('1'), 'a')
  assert.equal(news, 1)
  assert.deepEqual(asked, ['b'], 'its calls are to be on record before they are made')
})

test('a provider that sizes its connections is told the concurrency', () => {
  const told: number[] = []
  const provider: Provider = {
    ...createScripted(() => delivered).provider,
    resize: (_, concurrency) => told.push(concurrency),
  }
  const pool = poolOf([''], { provider, concurrency: 100, adaptive: { min: 1, slowdown: 2 } })
  for (let ms = 0; ms < 20 * second; ms += 50) {
    const leases = pool.lease(start + ms, 50)
    for (const lease of leases) lease.judge(start + ms, delivered, ms < 10 * second ? 50 : 2_000)
    for (const lease of leases) lease.end()
  }
  assert.ok(told.length > 0 && told[0]! < 100, `${told}`)
})

test('a record applies to accounts of this channel and provider alone', () => {
  const blocked = (more: Partial<AccountRecord>): AccountRecord => ({
    channel: 'email',
    provider: 'sandbox',
    account: 'a',
    blockedUntil: start + 60 * second,
    ...more,
  })
  const pool = poolOf(['', ''])
  pool.restore(start, [blocked({ channel: 'sms' }), blocked({ provider: 'smtp' }), blocked({ account: 'x' })])
  assert.equal(pool.condition(start), 'whole')
  pool.restore(start, [blocked({}), blocked({ account: 'b', blockedUntil: start })])
  assert.deepEqual([pool.condition(start), statuses(pool, start)], ['reduced', ['blocked', 'healthy']])
  assert.equal(pool.shedding.isActive, true)
  assert.deepEqual(new Set(idsOf(pool.lease(start + 60 * second, 2))), new Set(['a', 'b']))
})

test('a server that is down does not keep a pool from starting, an unreadable key does', async () => {
  const warmedBy = (error: Error): Promise<void> => {
    const provider = { ...createScripted(() => delivered).provider, warm: () => Promise.reject(error) }
    return poolOf([''], { provider }).warm()
  }
  await warmedBy(new Error('ECONNREFUSED'))
  await assert.rejects(warmedBy(new SluiceError('INVALID_CONFIG', 'no key')), { code: 'INVALID_CONFIG' })
})

test('a pool is reported with each rate once', () => {
  assert.equal(poolOf(['10/s', '10/s', '5/s']).report(start).rate, '10/s · 5/s')
})

test('a pool is not free for a probe for which its account has no place, though another account has places', () => {
  const pool = poolOf(['1/h', '100/s'])
  call(pool, start, broken, 'a')
  const now = start + 6 * second
  for (const lease of pool.lease(now, 10)) lease.end()
  assert.deepEqual(pool.lease(now, 10), [])
  assert.ok(pool.freeAt(now)! > now, 'it is free at once, and gives no lease')
  assert.deepEqual(idsOf(pool.lease(start + 3_600 * second, 10)).includes('a'), true)
})
