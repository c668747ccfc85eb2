/**
 * Pools of many accounts under stress, in virtual time. The sandbox stands on the other side and counts with code of
 * its own; every figure here is from what arrived there.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Priority } from '../../../src/model.ts'
import { createSandbox, type SandboxOptions } from '../../../src/providers/sandbox/adapter.ts'
import type { SandboxCall } from '../../../src/sandbox/record.ts'
import { createHarness, densest, type Harness, minute, second } from '../../harness.ts'

const start = Date.UTC(2026, 10, 21, 12)
const noLimits = { version: 1, limits: [] }

interface Setup {
  readonly accounts?: number
  readonly rate?: string
  /** Further options of the pool. */
  readonly pool?: object
  /** Fallback order of pools, in place of a single pool. */
  readonly pools?: readonly object[]
  readonly sandbox?: Partial<SandboxOptions>
}

/** A channel with many sandbox accounts whose calls are all recorded. */
async function setUp({
  accounts = 1,
  rate = 'unlimited',
  pool = {},
  pools,
  sandbox = {},
}: Setup): Promise<Harness & { readonly side: ReturnType<typeof createSandbox> }> {
  let side: ReturnType<typeof createSandbox> | undefined
  const list = Array.from({ length: accounts }, (_, index) => ({ id: `a${index}`, rate }))
  const harness = await createHarness({
    policy: noLimits,
    start,
    config: {
      tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 1_000_000 } },
      pools: {
        email: pools ?? { provider: 'sandbox', accounts: list, ...pool },
        websocket: { provider: 'sandbox' },
      },
    },
    providers(clock) {
      side = createSandbox({ clock, keep: 500_000, ...sandbox })
      return [side]
    },
  })
  return { ...harness, side: side! }
}

async function postMany(harness: Harness, count: number, priority: Priority = 'normal'): Promise<void> {
  for (let done = 0; done < count; done += 500) {
    const drafts = Array.from({ length: Math.min(500, count - done) }, () => ({ priority }))
    await harness.postMany(drafts)
  }
}

/** Posts at a constant rate per second for a while. */
async function flow(harness: Harness, perSecond: number, forMs: number): Promise<void> {
  const tickMs = 100
  for (let passed = 0; passed < forMs; passed += tickMs) {
    await postMany(harness, Math.round((perSecond * tickMs) / second))
    await harness.runFor(tickMs)
  }
}

function between(calls: readonly SandboxCall[], fromMs: number, toMs: number): readonly SandboxCall[] {
  return calls.filter(({ at }) => at >= start + fromMs && at < start + toMs)
}

const byAccount = (calls: readonly SandboxCall[]) => Map.groupBy(calls, ({ account }) => account)

test('five hundred accounts carry a burst with none above its rate in any second and nearly all of it used', async (t) => {
  const accounts = 500
  // `npm run sim -- burst` sends 50,000.
  const messages = 10_000
  const rate = 5
  const harness = await setUp({
    accounts,
    rate: `${rate}/s`,
    sandbox: { behaviour: { rates: [{ max: rate, windowMs: second }] } },
  })
  await postMany(harness, messages)
  await harness.runFor(20 * second)
  const calls = harness.side.calls()
  assert.equal(calls.length, messages)
  assert.equal(harness.side.counters().fates.rate_limit, 0)
  for (const [account, of] of byAccount(calls)) {
    const most = densest(
      of.map(({ at }) => at),
      second,
    )
    assert.ok(most <= rate, `${account} was called ${most} times in a second`)
  }
  const tookMs = calls.at(-1)!.at - calls[0]!.at
  const used = messages / (accounts * rate) / (tookMs / second + 1)
  t.diagnostic(`${(used * 100).toFixed(1)} % of the pool's rate used`)
  assert.ok(between(calls, second, 3 * second).length >= 2 * accounts * rate * 0.95)
  await harness.check()
  await harness.stop()
})

for (const load of [1, 0.5]) {
  test(`a tenth of the accounts blocked takes a tenth of the throughput, at ${load * 100} % of the rate`, async (t) => {
    const accounts = 20
    const rate = 5
    const blocked = new Set(['a3', 'a11'])
    const from = start + 12 * second
    const retryAfterMs = 80 * second
    const harness = await setUp({
      accounts,
      rate: `${rate}/s`,
      sandbox: {
        script: ({ account, now }) =>
          blocked.has(account) && now >= from && now < from + retryAfterMs ? 'rate_limit' : undefined,
        behaviour: { retryAfter: '80' },
      },
    })
    // Saturated: a little more than the accounts bear.
    const offered = accounts * rate * (load === 1 ? 1.05 : load)
    await flow(harness, offered, 90 * second)
    const calls = harness.side.calls()
    const perSecond = (fromMs: number, toMs: number): number =>
      between(calls, fromMs, toMs).filter((call) => call.arrived).length / ((toMs - fromMs) / second)
    const before = perSecond(2 * second, 12 * second)
    const after = perSecond(13 * second, 90 * second)
    t.diagnostic(
      `${before.toFixed(0)} a second before, ${after.toFixed(0)} after: ${(after / before).toFixed(3)}`,
    )
    assert.ok(Math.abs(after / before - 0.9) <= 0.02, `${after / before}`)
    for (const account of blocked) {
      const refused = harness.side.calls({ account, fate: 'rate_limit' })[0]!.at
      const later = harness.side.calls({ account }).filter(({ at }) => at > refused)
      assert.ok(
        later.every(({ at }) => at >= refused + retryAfterMs),
        'a blocked account gets no call',
      )
    }
    for (const [account, of] of byAccount(calls)) {
      if (blocked.has(account)) continue
      const rateIn = (fromMs: number, toMs: number) =>
        between(of, fromMs, toMs).length / ((toMs - fromMs) / second)
      const [was, is] = [rateIn(2 * second, 12 * second), rateIn(13 * second, 90 * second)]
      assert.ok(is <= was * 1.02, `${account} carried ${was} a second and then ${is}`)
    }
    const { dead } = harness.counts()
    t.diagnostic(`${dead} dead letters`)
    assert.ok(dead > 0)
    await harness.runFor(5 * minute)
    const { delivered, ...others } = harness.counts()
    assert.equal(delivered, harness.side.counters().arrived)
    assert.deepEqual(Object.values(others).filter(Boolean), [], 'everything is delivered')
    await harness.stop()
  })
}

test('queued notifications become dead letters when every account is blocked, and return by priority, spread over time', async (t) => {
  const harness = await setUp({
    accounts: 4,
    rate: '50/s',
    sandbox: {
      script: ({ now }) => (now < start + 30 * second ? 'rate_limit' : undefined),
      behaviour: { retryAfter: '30' },
    },
  })
  // The first four find the accounts blocked.
  await postMany(harness, 4, 'low')
  await harness.runFor(10)
  for (const priority of ['low', 'normal', 'high', 'critical'] as const)
    await postMany(harness, priority === 'low' ? 96 : 100, priority)
  await harness.runFor(4_890)
  assert.equal(harness.counts().dead, 0, 'they wait for five seconds first')
  await harness.runFor(200)
  assert.equal(harness.counts().dead, 400)
  const { items } = await harness.gateway.store.deadLetters({ limit: 1_000, causes: ['pool_blocked'] })
  assert.equal(items.length, 400)
  await harness.runUntil(start + 29_990)
  assert.equal(harness.side.calls().length, 4, 'a blocked account gets no call')
  await harness.runFor(minute)
  const arrived = harness.side.received()
  assert.equal(arrived.length, 400)
  const order = await Promise.all(
    arrived.map(async ({ message }) => (await harness.notification(message.id)).priority),
  )
  const urgency = { critical: 0, high: 1, normal: 2, low: 3 }
  const ranks = order.map((priority) => urgency[priority])
  assert.deepEqual(ranks, ranks.toSorted(), 'most urgent first')
  for (const rank of [0, 1, 2, 3]) {
    const ids = arrived.filter((_, index) => ranks[index] === rank).map(({ message }) => message.id)
    assert.deepEqual(ids, ids.toSorted(), 'oldest first')
  }
  const busiest = densest(
    arrived.map(({ at }) => at),
    second,
  )
  t.diagnostic(`${busiest} in the busiest second of ${200} that were possible`)
  assert.ok(busiest < 200, 'spread')
  assert.equal(harness.counts().delivered, 400)
  await harness.check()
  await harness.stop()
})

test('a failing account is taken out, probed once, and comes back; nothing is lost and the others go on', async () => {
  const sick = 'a3'
  const from = start + 5 * second
  const until = start + 40 * second
  const harness = await setUp({
    accounts: 10,
    rate: '50/s',
    sandbox: {
      script: ({ account, now }) => (account === sick && now >= from && now < until ? 'fail' : undefined),
    },
  })
  await flow(harness, 100, 60 * second)
  await harness.runFor(minute)
  const failures = harness.side.calls({ account: sick, fate: 'fail' }).map(({ at }) => at)
  const gaps = failures.slice(1).map((at, index) => Math.round((at - failures[index]!) / second))
  // 10 calls a second, half of the last ten seconds' must have failed.
  const untilOpen = gaps.findIndex((gap) => gap >= 4) + 1
  assert.ok(untilOpen >= 10 && untilOpen <= 120, `${untilOpen} failures until it opened`)
  assert.deepEqual(
    gaps.filter((gap) => gap > 0),
    [5, 10],
    'one probe after each cool-down, which doubles',
  )
  const report = harness.gateway.pools()[0]!
  assert.equal(report.accounts.find(({ id }) => id === sick)!.status, 'healthy')
  assert.equal(harness.side.counters('a0').fates.fail, 0)
  assert.equal(harness.counts().delivered, 6_000, 'nothing is lost')
  assert.equal(harness.side.counters().arrived, 6_000, 'and nothing twice')
  await harness.check()
  await harness.stop()
})

test('a failed call is retried by another account at once', async () => {
  const harness = await setUp({
    accounts: 3,
    rate: 'unlimited',
    sandbox: { script: ({ account }) => (account === 'a0' ? 'fail' : undefined) },
  })
  const { id } = await harness.post()
  await harness.runFor(10)
  const calls = harness.side.calls()
  assert.deepEqual(
    calls.map(({ account }) => account),
    ['a0', 'a1'],
  )
  const { timeline, attempts } = await harness.notification(id)
  assert.deepEqual(
    timeline.map(({ status, reason }) => (reason === undefined ? status : `${status} ${reason}`)),
    ['accepted', 'queued', 'sending', 'queued retry', 'sending', 'delivered'],
  )
  assert.equal(attempts, 2)
  await harness.stop()
})

test('retries stay within the retry budget of the pool, whatever fails', async (t) => {
  const harness = await setUp({
    accounts: 10,
    rate: 'unlimited',
    // Too few failures for a breaker, and each repetition may fail again.
    sandbox: { behaviour: { odds: { fail: 0.4 } } },
    pool: { breaker: { failures: '100%', of: 10_000 } },
  })
  await flow(harness, 250, 20 * second)
  const calls = harness.side.calls()
  const repeated = calls.filter(({ message }) => message.attempt > 1).length
  const first = calls.length - repeated
  t.diagnostic(`${first} first calls, ${repeated} repetitions`)
  assert.ok(repeated <= first * 0.2 + 40, `${repeated} of ${first}`)
  assert.ok(repeated > first * 0.15)
  assert.equal(
    Object.values(harness.counts()).reduce((sum, count) => sum + count, 0),
    5_000,
    'nothing is lost',
  )
  await harness.stop()
})

test('an account that throttles without an error gets less concurrency within ten seconds, and more again later', async (t) => {
  const harness = await setUp({
    accounts: 1,
    rate: 'unlimited',
    sandbox: {
      behaviour: { latency: 50, slowDown: { above: { max: 400, windowMs: second }, factor: 20 } },
    },
    pool: { accounts: [{ id: 'apns', concurrency: 200 }], shedding: false },
  })
  const concurrency = (): number => harness.gateway.pools()[0]!.accounts[0]!.concurrency
  await flow(harness, 300, 10 * second)
  assert.equal(concurrency(), 200)
  await flow(harness, 1_000, 10 * second)
  const low = concurrency()
  t.diagnostic(`200 calls at once before, ${low} within ten seconds`)
  assert.ok(low <= 70, `${low}`)
  await harness.runFor(10 * minute)
  await flow(harness, 200, 60 * second)
  assert.ok(concurrency() > low * 2, `${concurrency()}`)
  await harness.stop()
})

test('the second pool carries overflow of the first within its own rate, and nothing while the first is whole', async () => {
  const harness = await setUp({
    pools: [
      { provider: 'sandbox', accounts: [{ id: 'first', rate: '50/s' }] },
      { provider: 'sandbox', accounts: [{ id: 'second', rate: '10/s' }] },
    ],
    sandbox: {
      script: ({ account, now }) =>
        account === 'first' && now >= start + 5 * second && now < start + 20 * second
          ? 'rate_limit'
          : undefined,
      behaviour: { retryAfter: '15' },
    },
  })
  await flow(harness, 40, 5 * second)
  assert.equal(harness.side.calls({ account: 'second' }).length, 0)
  await flow(harness, 40, 10 * second)
  const instants = harness.side.calls({ account: 'second' }).map(({ at }) => at)
  assert.ok(densest(instants, second) <= 10)
  assert.ok(instants.length >= 90, `${instants.length}`)
  await harness.runFor(2 * minute)
  assert.equal(harness.counts().delivered, 600)
  await harness.stop()
})
