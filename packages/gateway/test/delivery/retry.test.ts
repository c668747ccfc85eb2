/** Retries over real pools: which account gets which call at which instant, and what is on record at the end. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { defaultBreakerPolicy } from '../../src/delivery/accounts/breaker.ts'
import type { Lease } from '../../src/delivery/pools/lease.ts'
import type { Route } from '../../src/delivery/pools/route.ts'
import { createRetries } from '../../src/delivery/retry.ts'
import { defaultRetryPolicy } from '../../src/delivery/retry-policy.ts'
import type { SendResult } from '../../src/ports.ts'
import { broken, delivered, refused, throttled } from './scripted.ts'
import { createStage, queued, type Stage, type StageOptions, second, start } from './stage.ts'

const unknown: SendResult = { outcome: 'unknown', detail: 'reset' }
const recipientFault: SendResult = { outcome: 'failed', recipientFault: true, detail: 'their server is away' }
const retry = { ...defaultRetryPolicy, capMs: 60_000, attemptsMax: 3, budget: 0 }
/** Breakers that stay closed, so that retries alone decide. */
const breaker = { ...defaultBreakerPolicy, inARow: 1_000, of: 1_000 }
const pool = { retry, breaker }
const one: StageOptions = { rates: [''], pool }
const two: StageOptions = { rates: ['', ''], pool }

const stageOf = (
  t: TestContext,
  options: StageOptions,
  answer: NonNullable<StageOptions['answer']>,
): Promise<Stage> => createStage(t, { pool, ...options, answer })

test('the first retry goes to another account at once, and later retries back off exponentially', async (t) => {
  const stage = await stageOf(t, two, () => broken)
  await stage.queue(queued('n'))
  await stage.runFor(60 * second)
  const { calls } = stage
  assert.deepEqual(
    calls.map(({ at }) => at),
    [0, 0, 1_000],
  )
  assert.notEqual(calls[0]!.account, calls[1]!.account)
  assert.deepEqual(await stage.last('n'), ['dead', 'attempts_exhausted', 1_000], 'three calls are all')
})

test('a retry of the only account waits from the first one on', async (t) => {
  const stage = await stageOf(t, one, () => broken)
  await stage.queue(queued('n'))
  await stage.runFor(60 * second)
  assert.deepEqual(
    stage.calls.map(({ at }) => at),
    [0, 500, 1_500],
  )
})

test('no retry goes to the account that has just failed, where another one is healthy', async (t) => {
  for (const rates of [
    ['', ''],
    ['', '', ''],
  ]) {
    const options = { rates, pool: { breaker, retry: { ...retry, attemptsMax: 6 } } }
    const stage = await stageOf(t, options, ({ id }) => (id === 'n' ? broken : delivered))
    await stage.queue(queued('n'))
    for (let count = 0; count < 30; count += 1) {
      // Others take their turns in between.
      await stage.queue(queued(`other-${count}`))
      await stage.runFor(second)
    }
    const accounts = stage.calls.filter(({ id }) => id === 'n').map(({ account }) => account)
    assert.equal(accounts.length, 6)
    for (const [index, account] of accounts.entries()) assert.notEqual(account, accounts[index - 1])
  }
})

test('a failed account is remembered for one retry, and forgotten with its notification', () => {
  const account = (id: string): Lease =>
    ({
      account: { id },
      pool: { retry, provider: {}, keepTurn() {}, budget: { take: () => true } },
    }) as unknown as Lease
  const route = { hasOther: () => true, exchange: () => account('other') } as unknown as Route
  const retries = createRetries({ random: { next: () => 0.5 } })
  const notification = (attempts: number) => ({ ...queued('n'), attempts })
  const fail = () => retries.retryOf(route, notification(0), broken, account('a'), start)
  const carrier = (id: string, isCalled = true) => {
    const attempt = { notification: notification(1), lease: account(id) }
    assert.equal(retries.exchangeLease(route, attempt, start), undefined)
    if (isCalled) retries.called(attempt.notification, attempt.lease, start)
    return attempt.lease.account.id
  }
  fail()
  assert.deepEqual([carrier('a', false), carrier('a'), carrier('a')], ['other', 'other', 'a'], 'one call')
  fail()
  assert.equal(carrier('b'), 'b', 'another one already')
  fail()
  retries.forget('n')
  assert.equal(carrier('a'), 'a')
})

test('a retry waits a second for another account to have a place, or as long as the failed one has asked', async (t) => {
  for (const [retryAfter, waitMs] of [
    [undefined, 1_000],
    ['4', 4_000],
  ] as const) {
    const failed: SendResult = { outcome: 'failed', detail: 'away', ...(retryAfter && { retryAfter }) }
    const options = { rates: ['', '1/10s'], pool: { breaker, retry: { ...retry, attemptsMax: 6 } } }
    const stage = await stageOf(t, options, (_, account) => (account === 'a' ? failed : delivered))
    await stage.queue(queued('before'))
    await stage.runFor(3 * second)
    await stage.queue(queued('n'))
    await stage.runFor(60 * second)
    const calls = stage.calls.filter(({ id }) => id === 'n')
    assert.equal(calls[0]!.account, 'a', 'the place of the other one is taken')
    const again = calls[1]!.at - calls[0]!.at
    assert.ok(again >= waitMs && again <= waitMs + 30, `it is called again after ${again} ms`)
  }
})

test('an unknown outcome is retried only if the provider is idempotent', async (t) => {
  for (const idempotent of [false, true]) {
    const stage = await stageOf(t, { ...two, provider: { idempotent } }, () =>
      stage.calls.length === 1 ? unknown : delivered,
    )
    await stage.queue(queued('n'))
    await stage.runFor(60 * second)
    assert.deepEqual(
      stage.calls.map(({ account, at }) => [account, at]),
      idempotent
        ? [
            ['a', 0],
            ['b', 0],
          ]
        : [['a', 0]],
    )
    assert.equal((await stage.record('n')).status, idempotent ? 'delivered' : 'dead')
  }
})

test('other outcomes are not retried and take no retry budget', async (t) => {
  for (const [result, status] of [
    [delivered, 'delivered'],
    [refused, 'failed'],
  ] as const) {
    const stage = await stageOf(t, two, () => result)
    const before = stage.pool.budget.left(stage.clock.now())
    await stage.queue(queued('n'))
    await stage.runFor(second)
    assert.deepEqual([stage.calls.length, (await stage.record('n')).status], [1, status])
    assert.equal(stage.pool.budget.left(stage.clock.now()), before)
  }
})

test('a call that met a rate is made again without a retry: it takes no retry budget', async (t) => {
  const stage = await stageOf(t, two, () => (stage.calls.length === 1 ? throttled('1') : delivered))
  const before = stage.pool.budget.left(stage.clock.now())
  await stage.queue(queued('n'))
  await stage.runFor(2 * second)
  assert.deepEqual([stage.calls.length, (await stage.record('n')).status], [2, 'delivered'])
  assert.equal(stage.pool.budget.left(stage.clock.now()), before)
})

test('nothing is retried without retry budget, except a recipient fault, which needs neither budget nor another account', async (t) => {
  const stage = await stageOf(t, one, ({ id }) => (id === 'theirs' ? recipientFault : broken))
  // Ten retries are always allowed.
  const ids = Array.from({ length: 12 }, (_, index) => `n${index}`)
  await stage.queue(...ids.map((id) => queued(id)), queued('theirs'))
  await stage.runFor(700)
  const callsOf = (id: string): number => stage.calls.filter((call) => call.id === id).length
  assert.deepEqual(
    ids.map(callsOf).filter((count) => count === 2).length,
    10,
    'as many as the budget has are retried',
  )
  const without = ids.filter((id) => callsOf(id) === 1)
  assert.equal(without.length, 2)
  for (const id of without) assert.deepEqual((await stage.last(id)).slice(0, 2), ['dead', 'shed'])
  assert.equal(callsOf('theirs'), 2)
})

test('first calls fund the retry budget', async (t) => {
  const stage = await stageOf(
    t,
    { ...two, pool: { ...pool, retry: { ...retry, budget: 0.5 } } },
    () => delivered,
  )
  const left = (): number => stage.pool.budget.left(stage.clock.now())
  const before = left()
  await stage.queue(...Array.from({ length: 20 }, (_, index) => queued(`n${index}`)))
  await stage.runFor(second)
  assert.equal(left() - before, 10)
})

test('a retry takes no turn of the round robin', async (t) => {
  const stage = await stageOf(t, { rates: ['', '', ''], pool }, ({ id }) =>
    id === 'fails' && stage.calls.length === 1 ? broken : delivered,
  )
  for (const id of ['fails', 'next', 'last']) {
    await stage.queue(queued(id))
    await stage.runFor(10)
  }
  assert.deepEqual(
    stage.calls.map(({ id, account }) => [id, account]),
    [
      ['fails', 'a'],
      ['fails', 'b'],
      ['next', 'b'],
      ['last', 'c'],
    ],
  )
})
