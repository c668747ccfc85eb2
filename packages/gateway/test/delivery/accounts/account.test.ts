import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { type AccountOptions, PooledAccount } from '../../../src/delivery/accounts/account.ts'
import { defaultBreakerPolicy } from '../../../src/delivery/accounts/breaker.ts'
import type { SendResult } from '../../../src/ports.ts'

const second = 1_000
const start = 1_000_000
const delivered: SendResult = { outcome: 'delivered' }
const failed: SendResult = { outcome: 'failed', detail: '503' }
const throttled = (retryAfter: string): SendResult => ({ outcome: 'rate_limited', retryAfter, detail: '429' })

interface Setup extends Partial<AccountOptions> {
  readonly adaptive?: { readonly min: number; readonly slowdown: number }
}

function accountOf(rates: readonly string[], { adaptive, ...more }: Setup = {}): PooledAccount {
  return new PooledAccount(
    {
      account: { id: 'a', options: {} },
      windows: rates.map((rate) => parseWindow(rate)),
      rate: rates.join(', ') || 'unlimited',
      concurrencyMax: 1_000,
      ...more,
    },
    { marginMs: 0, breaker: defaultBreakerPolicy, adaptive, keep: undefined },
  )
}

/** Tests if one more call may be made now. */
const isFree = (account: PooledAccount, now: number, kept = 0): boolean =>
  account.freeAt(now, kept, false) === now

function take(account: PooledAccount, now: number, count: number): void {
  for (let taken = 0; taken < count; taken += 1) account.take(now)
}

describe('what frees an account', () => {
  test('its rate is that of its narrowest window, and every window holds', () => {
    const account = accountOf(['100/min', '5/s'])
    assert.equal(account.ratePerSecond, 5)
    take(account, start, 5)
    assert.equal(account.freeAt(start, 0, false), start + second)
    for (let at = 1; at < 20; at += 1) take(account, start + at * second, 5)
    assert.equal(account.freeAt(start + 20 * second, 0, false), start + 60 * second)
  })

  test('a margin of its own holds in place of the pool’s', () => {
    const account = accountOf(['1/s'], { marginMs: 300 })
    account.take(start)
    assert.equal(account.freeAt(start, 0, false), start + 1_300)
  })

  test('a call above the concurrency waits for the end of another', () => {
    const account = accountOf([], { concurrencyMax: 2 })
    take(account, start, 1)
    assert.ok(isFree(account, start))
    take(account, start, 1)
    assert.equal(account.freeAt(start, 0, false), undefined)
    account.end(start)
    assert.ok(isFree(account, start))
  })

  test('reserved places are reserved in its rate and in its concurrency', () => {
    for (const account of [accountOf(['10/s']), accountOf([], { concurrencyMax: 10 })]) {
      take(account, start, 8)
      assert.ok(isFree(account, start, 0.1))
      take(account, start, 1)
      assert.equal(isFree(account, start, 0.1), false)
      assert.ok(isFree(account, start))
    }
  })

  test('freeAt is at most a second ahead while places are reserved or the rate is being learned', () => {
    const account = accountOf(['10/min'])
    take(account, start, 10)
    assert.equal(account.freeAt(start, 0.1, false), start + second)
    assert.equal(account.freeAt(start, 0, false), start + 60 * second)
    account.judge(start, throttled('0'), 1, false)
    assert.equal(account.freeAt(start, 0, false), start + second)
  })

  test('an undone call takes no place', () => {
    const account = accountOf(['1/s'], { concurrencyMax: 1 })
    account.undo(account.take(start))
    assert.ok(isFree(account, start))
    assert.equal(account.report(start).used, 0)
  })

  test('an account is free neither while its breaker is open nor during the probe', () => {
    const account = accountOf([])
    for (let call = 0; call < 9; call += 1) account.judge(start, failed, 1, false)
    assert.ok(isFree(account, start))
    assert.deepEqual(account.judge(start, failed, 1, false), [{ kind: 'opened', until: start + 5 * second }])
    assert.ok(account.isOut(start))
    assert.equal(account.freeAt(start, 0, false), start + 5 * second)
    account.breaker.begin()
    assert.equal(account.freeAt(start + 5 * second, 0, false), undefined)
    assert.deepEqual(account.judge(start + 5 * second, delivered, 1, true), [{ kind: 'closed' }])
    assert.ok(isFree(account, start + 5 * second))
    assert.equal(account.isOut(start + 5 * second), false)
  })
})

test('a timeout with unknown outcome counts as a failure, a rejected message or a 429 does not', () => {
  const opensBy = (result: SendResult): boolean => {
    const account = accountOf([])
    return Array.from({ length: 20 }, () => account.judge(start, result, 1, false)).some((changes) =>
      changes.some(({ kind }) => kind === 'opened'),
    )
  }
  assert.equal(opensBy({ outcome: 'unknown', detail: 'reset' }), true)
  assert.equal(opensBy(failed), true)
  assert.equal(opensBy({ ...failed, recipientFault: true }), false)
  assert.equal(opensBy({ outcome: 'rejected', invalidAddress: false, detail: '422' }), false)
  assert.equal(opensBy(throttled('0')), false)
})

test('only delivered calls count for the latency', () => {
  const account = accountOf([], { concurrencyMax: 100, adaptive: { min: 1, slowdown: 2 } })
  let now = start
  const seconds = (count: number, result: SendResult, tookMs: number): boolean => {
    let resized = false
    for (const end = now + count * second; now < end; now += 50) {
      account.inFlight = 50
      resized ||= account.judge(now, result, tookMs, false).length > 0
    }
    return resized
  }
  assert.equal(seconds(10, delivered, 50), false)
  assert.equal(seconds(5, { outcome: 'rejected', invalidAddress: false, detail: '422' }, 2_000), false)
  assert.equal(seconds(5, delivered, 2_000), true)
  assert.ok(account.concurrency < 100)
})

describe('a 429', () => {
  test('lasts until the latest Retry-After', () => {
    const account = accountOf([])
    const said = (retryAfter: string) => account.judge(start, throttled(retryAfter), 1, false)
    assert.deepEqual(said('10'), [
      { kind: 'blocked', until: start + 10 * second, retryAfter: { ms: 10 * second } },
    ])
    assert.deepEqual(said('5'), [])
    assert.equal(account.freeAt(start, 0, false), start + 10 * second)
    assert.equal(said('20').length, 1)
    assert.equal(account.freeAt(start, 0, false), start + 20 * second)
  })

  test('is reported until it is over, in preference to an open breaker', () => {
    const account = accountOf([])
    for (let call = 0; call < 10; call += 1) account.judge(start, failed, 1, false)
    account.judge(start, throttled('20'), 1, false)
    const at = (now: number) => {
      const { status, blockedUntil } = account.report(now)
      return [status, blockedUntil, account.isOut(now)]
    }
    assert.deepEqual(at(start + 19_999), ['blocked', start + 20 * second, true])
    assert.deepEqual(at(start + 20 * second), ['open', null, true])
    assert.deepEqual(account.record(start + 20 * second), {
      outSince: start,
      breaker: { openUntil: start + 5 * second, coolDownMs: 5 * second },
    })
  })

  test('lowers the learned rate once, however many calls were in flight', () => {
    const account = accountOf(['10/s'])
    const learned = (now: number) => account.report(now).learnedRate
    assert.equal(learned(start), null)
    account.judge(start, throttled('1'), 1, false)
    account.judge(start + 10, throttled('2'), 1, false)
    const back = start + 1_010 + second
    assert.ok(Math.abs(learned(back)! - 8.1) < 0.11, `${learned(back)}`)
    take(account, back, 8)
    assert.equal(isFree(account, back), false)
    account.judge(back, throttled('1'), 1, false)
    assert.ok(learned(back + second)! < 6.6, `${learned(back + second)}`)
    assert.equal(learned(back + 60 * second), null)
  })

  test('of an account without a rate starts at its calls in the last second, and is forgotten in the end', () => {
    const account = accountOf([])
    take(account, start, 50)
    assert.equal(account.report(start).used, 0, 'of what is unlimited nothing is used')
    account.judge(start, throttled('1'), 1, false)
    const back = start + second
    assert.equal(account.report(back).learnedRate, 40)
    take(account, back, 39)
    assert.ok(isFree(account, back))
    take(account, back, 1)
    assert.equal(isFree(account, back), false)
    assert.equal(account.report(back).used, 0)
    // There were 40 calls now, and yet the learned rate stays.
    account.judge(back, throttled('1'), 1, false)
    assert.equal(account.report(back + second).learnedRate, 32)
    const healed = back + 60 * second
    assert.equal(account.report(healed).learnedRate, null)
    take(account, healed, 200)
    assert.ok(isFree(account, healed))
  })

  test('of a hardly used account leaves it ten calls per second to learn by', () => {
    const account = accountOf([])
    account.take(start)
    account.judge(start, throttled('0'), 1, false)
    assert.equal(account.report(start).learnedRate, 8)
  })
})
