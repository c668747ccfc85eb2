/**
 * Delivery over accounts whose state several processes share: tokens and verdicts come later than they are asked for
 * (slot-account.ts), and everything leaves all the same.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultBreakerPolicy } from '../../src/delivery/accounts/breaker.ts'
import { createFleetAccounts } from '../../src/delivery/accounts/fleet-accounts.ts'
import type { PoolOptions } from '../../src/delivery/pools/pool.ts'
import { defaultRetryPolicy } from '../../src/delivery/retry-policy.ts'
import type { AccountSlots } from '../../src/ports/account-slots.ts'
import type { VirtualClock } from '../../src/simulation/clock.ts'
import { SharedAccount } from './accounts/slot-account.ts'
import { broken, delivered, throttled } from './scripted.ts'
import { createStage, queued, type SentCall, type StageOptions, second } from './stage.ts'

const answerMs = 3
const stateOf =
  (clock: VirtualClock): NonNullable<PoolOptions['stateOf']> =>
  (options, policy) =>
    new SharedAccount(options, policy, { clock, answerMs }).join()

/** Accounts of one process of a fleet, whose shared state has one token of each account in each slot that no other took. */
const fleetOf = (
  clock: VirtualClock,
  isTaken: (account: number, slot: number) => boolean = () => false,
): NonNullable<PoolOptions['stateOf']> => {
  const slotMs = 20
  const grantedIn = new Map<number, number>()
  const grant = (account: number, slot: number): number => {
    if (grantedIn.get(account) === slot || isTaken(account, slot)) return 0
    grantedIn.set(account, slot)
    return 1
  }
  const slots: AccountSlots = {
    async ask({ asks }) {
      await new Promise<void>((resolve) => clock.at(clock.now() + answerMs, resolve))
      const slot = Math.floor(clock.now() / slotMs)
      return {
        slot,
        restMs: slotMs - (clock.now() % slotMs),
        bornAt: 1,
        isNewMember: false,
        lastVerdict: 0,
        lastResults: 0,
        grants: asks.map(({ account, want, busy }) => {
          const tokens = want === 0 ? 0 : grant(account, slot)
          return { tokens, isProbe: false, shortage: tokens < want ? 'window' : 'none', busy: busy + tokens }
        }),
        verdicts: [],
        results: [],
        uses: [],
        long: [],
      }
    },
  }
  return createFleetAccounts({ slots, clock, member: 'm1', isJudge: () => true }).ofPool('email')
}

const many = (count: number) => Array.from({ length: count }, (_, n) => queued(`n${n}`))
const to = (account: string, calls: readonly SentCall[]) => calls.filter((call) => call.account === account)
const rates: StageOptions['rates'] = ['20/s', '20/s', '20/s']

test('accounts whose tokens come later carry all within their rates', async (t) => {
  const stage = await createStage(t, { rates, stateOf })
  await stage.queue(...many(300))
  await stage.runFor(6 * second)
  assert.equal(stage.calls.length, 300)
  for (const account of ['a', 'b', 'c']) {
    const calls = to(account, stage.calls)
    for (let index = 20; index < calls.length; index += 1)
      assert.ok(calls[index]!.at - calls[index - 20]!.at >= second, `${account} at ${calls[index]!.at}`)
  }
})

test('a critical notification takes the tokens that were asked for it, within two slots', async (t) => {
  const stage = await createStage(t, { rates, stateOf: fleetOf })
  await stage.runFor(second)
  await stage.queue(queued('c', { priority: 'critical' }))
  await stage.runFor(10 * second)
  assert.equal(stage.calls.length, 1)
  assert.ok(stage.calls[0]!.at - second <= 40, `it waited ${stage.calls[0]!.at - second} ms`)
})

test('the first retry goes to the other account, whose token comes later', async (t) => {
  const away = { outcome: 'failed', retryAfter: '8', detail: 'away' } as const
  const options: StageOptions = {
    rates: ['20/s', '20/s'],
    // Other processes have most tokens of b.
    stateOf: (clock) => fleetOf(clock, (account, slot) => account === 1 && (slot * 7) % 11 > 4),
    pool: {
      breaker: { ...defaultBreakerPolicy, inARow: 1_000, of: 1_000 },
      retry: { ...defaultRetryPolicy, budget: 1 },
    },
  }
  const stage = await createStage(t, {
    ...options,
    answer: (_, account) => (account === 'a' ? away : delivered),
  })
  for (let n = 0; n < 60; n += 1) {
    await stage.queue(queued(`n${n}`))
    await stage.runFor(97)
  }
  await stage.runFor(second)
  for (let n = 0; n < 60; n += 1) {
    const accounts = stage.calls.filter(({ id }) => id === `n${n}`).map(({ account }) => account)
    assert.ok(['b', 'a,b'].includes(accounts.join()), `n${n} is called by ${accounts}`)
  }
})

test('a block is in the record that is written when its answer comes', async (t) => {
  const records: (number | undefined)[] = []
  const stage = await createStage(t, {
    rates,
    stateOf: fleetOf,
    pool: {
      onChange(pool, account, { kind }) {
        if (kind === 'blocked') records.push(pool.record(account, stage.clock.now()).blockedUntil)
      },
    },
    answer: (_, account) => (account === 'a' ? throttled('60') : delivered),
  })
  const startedAt = stage.clock.now()
  await stage.queue(...many(6))
  await stage.runFor(second)
  const [blocked] = to('a', stage.calls)
  assert.deepEqual(records, [startedAt + blocked!.at + 60 * second])
})

test('an account that another answer has blocked is called no more once that is known', async (t) => {
  const stage = await createStage(t, {
    rates,
    stateOf,
    answer: (_, account) => (account === 'a' ? throttled('30') : delivered),
    pool: { shedding: false },
  })
  await stage.queue(...many(100))
  await stage.runFor(10 * second)
  assert.equal(stage.pool.condition(stage.clock.now()), 'reduced', 'the pool has heard of the verdict')
  const blocked = to('a', stage.calls)
  assert.ok(blocked.length > 0 && blocked.length <= 8, `${blocked.length} calls`)
  assert.ok(blocked.every(({ at }) => at <= blocked[0]!.at + 2 * answerMs + 20))
  const ids = new Set(stage.calls.filter(({ account }) => account !== 'a').map(({ id }) => id))
  assert.equal(ids.size, 100)
})

test('a broken account is probed once after each cool-down, and carries again after a good one', async (t) => {
  let isWell = false
  const stage = await createStage(t, {
    rates: ['', ''],
    stateOf,
    concurrency: 4,
    answer: (_, account) => (account === 'a' && !isWell ? broken : delivered),
    pool: {
      breaker: {
        failures: 0.5,
        of: 1,
        withinMs: 10_000,
        inARow: 10,
        coolDownMs: 5_000,
        coolDownMaxMs: 60_000,
      },
    },
  })
  await stage.queue(...many(20))
  await stage.runFor(4 * second)
  const failedBefore = to('a', stage.calls).length
  assert.ok(failedBefore > 0)
  for (let n = 0; n < 20; n += 1) {
    await stage.queue(queued(`m${n}`))
    await stage.runFor(200)
  }
  assert.equal(
    to('a', stage.calls).length,
    failedBefore + 1,
    'one probe, whose failure doubles the cool-down',
  )
  isWell = true
  for (let n = 0; n < 100; n += 1) {
    await stage.queue(queued(`l${n}`))
    await stage.runFor(200)
  }
  assert.ok(to('a', stage.calls).length > failedBefore + 10)
})
