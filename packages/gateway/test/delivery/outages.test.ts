/**
 * Long outages of a whole provider, and actions of recipients and operators meanwhile: they opt out, cancel,
 * redrive, take an account out of the configuration. In virtual time, with the sandbox on the other side.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Store } from '../../src/ports.ts'
import { createSandbox, type Sandbox, type SandboxOptions } from '../../src/providers/sandbox/adapter.ts'
import { createHarness, densest, type Harness, hour, minute, second } from '../harness.ts'
import { overriding } from '../overriding.ts'

const start = Date.UTC(2026, 10, 21, 12)

interface Setup {
  readonly pools: object | readonly object[]
  readonly policy?: object
  readonly file?: string
  /** Wraps the store between the gateway and that file. */
  readonly wrap?: (store: Store) => Store
  readonly startAt?: number
  readonly sandbox?: Partial<SandboxOptions>
}

async function setUp(setup: Setup): Promise<Harness & { readonly side: Sandbox }> {
  let side: Sandbox | undefined
  const harness = await createHarness({
    policy: setup.policy ?? { version: 1, limits: [] },
    start: setup.startAt ?? start,
    ...(setup.file === undefined ? {} : { file: setup.file }),
    ...(setup.wrap === undefined ? {} : { wrap: setup.wrap }),
    config: {
      tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 1_000_000 } },
      pools: { email: setup.pools, websocket: { provider: 'sandbox' } },
    },
    providers(clock) {
      side = createSandbox({ clock, keep: 500_000, ...setup.sandbox })
      return [side]
    },
  })
  return { ...harness, side: side! }
}

const pool = (accounts: number, rate: string, more: object = {}): object => ({
  provider: 'sandbox',
  accounts: Array.from({ length: accounts }, (_, index) => ({ id: `a${index}`, rate })),
  ...more,
})

const drafts = (count: number, draft: object = {}) => Array.from({ length: count }, () => ({ ...draft }))

async function flow(harness: Harness, perSecond: number, forMs: number): Promise<void> {
  for (let passed = 0; passed < forMs; passed += 100) {
    await harness.postMany(drafts(perSecond / 10))
    await harness.runFor(100)
  }
}

/** A database file that is deleted with the test. */
function fileFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-outage-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'sluice.db')
}

async function dead(harness: Harness): Promise<Readonly<Record<string, number>>> {
  const { items } = await harness.done(harness.gateway.store.deadLetters({ limit: 100_000 }))
  const byCause = Map.groupBy(items, ({ timeline }) => timeline.at(-1)!.reason ?? '')
  return Object.fromEntries([...byCause].map(([cause, those]) => [cause, those.length]))
}

const away = (until: number, retryAfter: string): Partial<SandboxOptions> => ({
  behaviour: { retryAfter },
  script: ({ now }) => (now < until ? 'rate_limit' : undefined),
})

test('every failing account is probed once per cool-down, and all notifications are sent afterwards', async (t) => {
  const accounts = 20
  const until = start + 5 * minute
  const harness = await setUp({
    pools: pool(accounts, '1000/s'),
    sandbox: { script: ({ now }) => (now < until ? 'fail' : undefined) },
  })
  await flow(harness, 40, 20 * second)
  await harness.runUntil(until)
  const inAMinute = harness.side.calls().filter(({ at }) => at >= until - minute).length
  const calls = harness.side.calls().length
  t.diagnostic(
    `${calls} calls in all, ${inAMinute} in the last minute; ${JSON.stringify(await dead(harness))}`,
  )
  assert.ok(inAMinute <= accounts)
  const { items } = await harness.done(harness.gateway.store.deadLetters({ limit: 10_000 }))
  const returns = items.flatMap(({ timeline }) =>
    timeline.filter(({ status }, index) => status === 'queued' && timeline[index - 1]!.status === 'dead'),
  )
  assert.ok(returns.length <= calls, `${returns.length} returned to be called ${calls} times`)
  // The last cool-down may have begun just before.
  await harness.runFor(minute + 20 * second)
  const { delivered, dead: left } = harness.counts()
  assert.deepEqual([delivered + left, await dead(harness)], [800, { attempts_exhausted: left }])
  assert.ok(left < 8, `${left}`)
  await harness.check()
  await harness.stop()
})

test('dead letters without retry budget return at the pool’s rate once no call fails', async () => {
  const until = start + 5 * second
  const harness = await setUp({
    pools: pool(2, '100/s', { breaker: { of: 10_000, inARow: 10_000 } }),
    sandbox: { script: ({ now }) => (now < until ? 'fail' : undefined) },
  })
  await harness.postMany(drafts(400))
  await harness.runUntil(until)
  assert.ok(harness.side.calls().length < 400 * 1.2 + 40, 'while calls fail it is kept')
  assert.ok(harness.counts().dead > 300)
  await harness.runFor(20 * second)
  assert.equal(harness.counts().delivered, 400, JSON.stringify(harness.counts()))
  await harness.stop()
})

test('accounts with a concurrency of one redrive as fast as others', async () => {
  const until = start + 20 * second
  const accounts = ['a', 'b'].map((id) => ({ id, rate: '200/s', concurrency: 1 }))
  const harness = await setUp({
    pools: { provider: 'sandbox', accounts },
    sandbox: { ...away(until, '20'), behaviour: { latency: 10, retryAfter: '20' } },
  })
  await harness.postMany(drafts(1_000))
  await harness.runUntil(until)
  assert.deepEqual(await dead(harness), { pool_blocked: 1_000 })
  await harness.runFor(8 * second)
  assert.equal(harness.counts().delivered, 1_000, 'they carry 200 a second, busy all the time')
  await harness.stop()
})

test('a recipient who opts out, or whose notification is cancelled, during an outage gets nothing afterwards', async () => {
  const harness = await setUp({ pools: pool(1, '10/s'), sandbox: away(start + second, '60') })
  const first = await harness.post({ recipient: 'eve' })
  await harness.runFor(second)
  const recipient = (id: string) => ({ tenant: 'default', id, optOuts: [{ category: 'marketing' }] })
  const marketing = (recipient: string) => harness.post({ recipient, category: 'marketing' })
  const outWhileDead = await marketing('ada')
  const cancelledWhileDead = await harness.post()
  await harness.runFor(10 * second)
  assert.deepEqual(await dead(harness), { pool_blocked: 3 })
  await harness.done(harness.gateway.gate.saveRecipient(recipient('ada')))
  await harness.done(harness.gateway.gate.cancel('default', cancelledWhileDead.id))
  const outWhileQueued = await marketing('bob')
  const cancelledWhileQueued = await harness.post()
  await harness.runFor(second)
  await harness.done(harness.gateway.gate.saveRecipient(recipient('bob')))
  await harness.done(harness.gateway.gate.cancel('default', cancelledWhileQueued.id))
  assert.equal((await harness.notification(outWhileQueued.id)).status, 'suppressed')
  await harness.runFor(5 * minute)
  for (const [{ id }, status, reason] of [
    [outWhileDead, 'suppressed', 'opted_out'],
    [outWhileQueued, 'suppressed', 'opted_out'],
    [cancelledWhileDead, 'cancelled', undefined],
    [cancelledWhileQueued, 'cancelled', undefined],
    [first, 'delivered', undefined],
  ] as const) {
    const last = (await harness.notification(id)).timeline.at(-1)
    assert.deepEqual([last?.status, last?.reason], [status, reason])
  }
  assert.deepEqual(
    harness.side.received().map(({ message }) => message.id),
    [first.id],
  )
  await harness.check()
  await harness.stop()
})

test('a redrive while every account is blocked makes no call, and the dead letters return later', async () => {
  const harness = await setUp({ pools: pool(2, '100/s'), sandbox: away(start + second, '60') })
  await harness.postMany(drafts(200))
  await harness.runFor(10 * second)
  assert.deepEqual(await dead(harness), { pool_blocked: 200 })
  const calls = harness.side.calls().length
  assert.equal((await harness.done(harness.gateway.gate.redrive({ all: true }))).redriven, 200)
  await harness.runFor(4 * second)
  assert.equal(harness.counts().queued, 200, 'it waits like everything else')
  assert.equal((await harness.done(harness.gateway.gate.redrive({ all: true }))).redriven, 0)
  await harness.runFor(10 * second)
  assert.deepEqual(await dead(harness), { pool_blocked: 200 })
  await harness.runUntil(start + minute - 1)
  assert.equal(harness.side.calls().length, calls)
  const { timeline } = (await harness.done(harness.gateway.store.deadLetters({ limit: 1 }))).items[0]!
  assert.equal(timeline.filter(({ status }) => status === 'dead').length, 2, 'no round of its own')
  await harness.runFor(30 * second)
  assert.equal(harness.counts().delivered, 200)
  await harness.check()
  await harness.stop()
})

test('a recovered first pool takes over from the second, and each tenant’s order is kept', async () => {
  const until = start + 10 * second
  const harness = await setUp({
    pools: [pool(1, '50/s'), { provider: 'sandbox', accounts: [{ id: 'second', rate: '20/s' }] }],
    sandbox: {
      behaviour: { retryAfter: '10' },
      script: ({ account, now }) => (account === 'a0' && now < until ? 'rate_limit' : undefined),
    },
  })
  await flow(harness, 40, 30 * second)
  await harness.runFor(minute)
  assert.equal(harness.counts().delivered, 1_200)
  // Calls that were refused once are delayed by that.
  const refused = new Set(harness.side.calls({ fate: 'rate_limit' }).map(({ message }) => message.id))
  const back = harness.side.received().filter(({ at }) => at >= until + second)
  assert.deepEqual([...new Set(back.map(({ account }) => account))], ['a0'])
  const ids = harness.side.received().flatMap(({ message: { id } }) => (refused.has(id) ? [] : [id]))
  assert.deepEqual(ids, ids.toSorted())
  await harness.stop()
})

for (const account of [
  { id: 'a', rate: '1/s' },
  { id: 'a', rate: 'unlimited', concurrency: 1 },
]) {
  test(`with ${JSON.stringify(account)} critical notifications wait for one place, and the others take none of theirs`, async () => {
    const harness = await setUp({
      pools: { provider: 'sandbox', accounts: [account] },
      sandbox: { behaviour: { latency: 100 } },
    })
    await harness.postMany(drafts(1_000, { priority: 'low' }))
    const posted = new Map<string, number>()
    for (let index = 0; index < 60; index += 1) {
      await harness.runFor(730)
      if (index % 3 === 0) posted.set((await harness.post({ priority: 'critical' })).id, harness.clock.now())
    }
    await harness.runFor(2 * second)
    const arrived = harness.side.received()
    const waits = arrived.flatMap(({ at, message: { id } }) => (posted.has(id) ? [at - posted.get(id)!] : []))
    assert.equal(waits.length, 20)
    const placeMs = account.concurrency === 1 ? 100 : 1_020
    assert.ok(Math.max(...waits) <= placeMs, `${Math.max(...waits)} ms`)
    const seconds = (harness.clock.now() - start) / second
    const carried = (seconds * second) / placeMs
    assert.ok(arrived.length >= carried * 0.95 - 1, `${arrived.length} of ${carried}`)
    await harness.runFor(20 * minute)
    await harness.stop()
  })
}

test('a probe that is answered 429 closes the breaker, and the block holds to the letter', async () => {
  const instants: number[] = []
  const harness = await setUp({
    pools: pool(1, 'unlimited', { breaker: { of: 5, coolDown: '5s' } }),
    sandbox: {
      behaviour: { retryAfter: '7' },
      script: ({ now }) => {
        instants.push(now - start)
        return now < start + 4 * second ? 'fail' : now < start + 12 * second ? 'rate_limit' : undefined
      },
    },
  })
  for (let index = 0; index < 10; index += 1) {
    await harness.post()
    await harness.runFor(200)
  }
  const status = () => harness.gateway.pools()[0]!.accounts[0]!.status
  assert.equal(status(), 'open')
  const opened = instants.at(-1)!
  await harness.runUntil(start + opened + 5 * second)
  assert.equal(status(), 'blocked')
  await harness.runFor(7 * second)
  const probe = opened + 5 * second
  assert.deepEqual(instants.slice(instants.indexOf(opened) + 1)[0], probe, 'one probe')
  assert.ok(instants.every((at) => at <= probe || at >= probe + 7 * second))
  await harness.runFor(minute)
  assert.deepEqual([status(), harness.counts().delivered], ['healthy', 10])
  await harness.stop()
})

test('notifications waiting for removed accounts leave by the others, and the blocks of removed accounts stay on record', async (t) => {
  const file = fileFor(t)
  const before = await setUp({ pools: pool(2, '10/s'), file, sandbox: away(start + hour, '3600') })
  await before.postMany(drafts(50))
  await before.runFor(10 * second)
  await before.postMany(drafts(50))
  assert.deepEqual([before.counts().dead, before.counts().queued], [50, 50])
  await before.stop()
  const other = { provider: 'sandbox', accounts: [{ id: 'other', rate: '10/s' }] }
  const after = await setUp({ pools: other, file, startAt: start + 20 * second })
  await after.runFor(minute)
  assert.equal(after.counts().delivered, 100)
  await after.stop()
  const again = await setUp({ pools: pool(2, '10/s'), file, startAt: start + 2 * minute })
  await again.post()
  await again.runFor(second)
  assert.equal(again.side.calls().length, 0)
  assert.deepEqual(
    again.gateway.pools()[0]!.accounts.map((account) => account.status),
    ['blocked', 'blocked'],
  )
  await again.stop()
})

test('dead letters return after a restart by priority, then age, and spread over time', async (t) => {
  const file = fileFor(t)
  const blocked = away(start + second, '60')
  const before = await setUp({ pools: pool(4, '50/s'), file, sandbox: blocked })
  await before.postMany(drafts(4))
  await before.runFor(second)
  for (const priority of ['low', 'critical', 'normal', 'high'] as const)
    await before.postMany(drafts(250, { priority }))
  await before.runFor(10 * second)
  assert.deepEqual(await dead(before), { pool_blocked: 1_004 })
  await before.stop()
  const after = await setUp({ pools: pool(4, '50/s'), file, startAt: start + 40 * second })
  await after.runUntil(start + minute - 1)
  assert.equal(after.side.calls().length, 0, 'no call before its block is over')
  await after.runFor(minute)
  assert.equal(after.counts().delivered, 1_004)
  const arrived = after.side.received()
  const urgency = { critical: 0, high: 1, normal: 2, low: 3 }
  const keys = arrived.map(({ message }) => `${urgency[message.priority ?? 'normal']} ${message.id}`)
  assert.deepEqual(keys, keys.toSorted())
  const perSecond = (from: number) =>
    arrived.filter(({ at }) => at >= arrived[0]!.at + from && at < arrived[0]!.at + from + second).length
  t.diagnostic([0, 1, 2, 3, 4, 5, 6].map((from) => perSecond(from * second)).join(' '))
  assert.ok(perSecond(0) <= 40 && perSecond(second) <= 80, 'not all at once')
  assert.ok(
    densest(
      arrived.map(({ at }) => at),
      second,
    ) <= 200,
  )
  await after.check()
  await after.stop()
})

test('a store that fails to read a recipient while a notification dies does not block its redrive', async (t) => {
  const file = fileFor(t)
  const before = await setUp({ pools: pool(1, '10/s'), file })
  const { id } = await before.post({ sendAt: start + 2 * minute })
  await before.done(before.gateway.gate.saveRecipient({ tenant: 'default', id: 'ada', optOuts: [] }))
  await before.stop()

  let isAway = false
  const wrap = (store: Store): Store =>
    overriding(store, {
      async recipient(...asked) {
        if (isAway) throw new Error('the disk is away')
        return store.recipient(...asked)
      },
    })
  const blocked = away(start + 2 * minute, '60')
  const after = await setUp({ pools: pool(1, '10/s'), file, wrap, startAt: start + minute, sandbox: blocked })
  await after.runUntil(start + 2 * minute - second)
  await after.post({ recipient: 'eve', priority: 'high' })
  await after.runFor(500)
  isAway = true
  await after.runFor(10 * second)
  isAway = false
  assert.equal((await after.notification(id)).status, 'dead')
  await after.runFor(2 * minute)
  assert.equal((await after.notification(id)).status, 'delivered')
  await after.stop()
})

test('a dead letter for want of capacity has its whole timeline, and holds no slot', async () => {
  const harness = await setUp({
    pools: pool(1, '10/s'),
    policy: { version: 1, limits: [{ name: 'all', for: 'any', max: ['1/day'], over: 'drop' }] },
    sandbox: away(start + second, '60'),
  })
  await harness.post({ recipient: 'eve' })
  await harness.runFor(second)
  const { id } = await harness.post({ sendAt: start + 3 * second })
  assert.equal((await harness.post()).decision.reason, 'over_limit')
  await harness.runFor(20 * second)
  assert.deepEqual(
    (await harness.notification(id)).timeline.map(({ status }) => status),
    ['accepted', 'scheduled', 'queued', 'dead'],
  )
  assert.equal((await harness.post()).status, 'queued')
  await harness.stop()
})
