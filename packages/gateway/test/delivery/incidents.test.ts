/**
 * Consecutive incidents and the time between them, in virtual time, with the sandbox as the provider.
 */
import assert from 'node:assert/strict'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Pool } from '../../src/delivery/pools/pool.ts'
import { SluiceError } from '../../src/errors.ts'
import type { SendResult, Store } from '../../src/ports.ts'
import { createSandbox, type SandboxOptions } from '../../src/providers/sandbox/adapter.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'
import { createHarness, densest, type Harness, minute, second } from '../harness.ts'
import { overriding } from '../overriding.ts'

const start = Date.UTC(2026, 10, 21, 12)

interface Setup {
  readonly accounts: number
  readonly rate: string
  readonly pool?: object
  readonly store?: Store
  readonly file?: string
  readonly startAt?: number
  readonly sandbox: Partial<SandboxOptions>
}

async function setUp({
  accounts,
  rate,
  pool,
  store,
  file,
  startAt = start,
  sandbox,
}: Setup): Promise<Harness> {
  return createHarness({
    policy: { version: 1, limits: [] },
    start: startAt,
    ...(file === undefined ? {} : { file }),
    config: {
      tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 1_000_000 } },
      pools: {
        email: {
          provider: 'sandbox',
          accounts: Array.from({ length: accounts }, (_, index) => ({ id: `a${index}`, rate })),
          ...pool,
        },
        websocket: { provider: 'sandbox' },
      },
    },
    ...(store === undefined ? {} : { parts: { store } }),
    providers: (clock) => [createSandbox({ clock, keep: 500_000, ...sandbox })],
  })
}

test('notifications queued before an incident are shed after shedAfter from its start, also in a second incident', async () => {
  let refusing = true
  const harness = await setUp({
    accounts: 2,
    rate: '10/s',
    sandbox: {
      behaviour: { retryAfter: '1' },
      script: ({ account }) => (account === 'a0' && refusing ? 'rate_limit' : undefined),
    },
  })
  await harness.post()
  await harness.post()
  refusing = false
  await harness.runFor(30 * second)
  // More than the pool carries in ten seconds: it waits, and nothing is wrong.
  await harness.postMany(Array.from({ length: 400 }, () => ({})))
  await harness.runFor(10 * second)
  assert.equal(harness.counts().dead, 0)
  refusing = true
  await harness.runFor(500)
  assert.equal(harness.counts().dead, 0, 'the second incident has just begun')
  await harness.stop()
})

test('automatic redrive goes on after a store failure', async () => {
  let broken = false
  const inner = createMemoryStore()
  let failures = 0
  const store = overriding(inner, {
    async deadLetters(...query) {
      if (!broken) return inner.deadLetters(...query)
      failures += 1
      throw new SluiceError('STORE_UNAVAILABLE', 'away')
    },
  })
  const harness = await setUp({
    accounts: 1,
    rate: '100/s',
    store,
    sandbox: {
      behaviour: { retryAfter: '30' },
      script: ({ now }) => (now < start + 5 * second ? 'rate_limit' : undefined),
    },
  })
  await harness.postMany(Array.from({ length: 50 }, () => ({})))
  await harness.runFor(20 * second)
  assert.equal(harness.counts().dead, 50, JSON.stringify(harness.counts()))
  broken = true
  await harness.runFor(20 * second)
  broken = false
  assert.ok(failures > 0)
  await harness.runFor(minute)
  assert.equal(harness.counts().delivered, 50)
  await harness.stop()
})

test('dead letters without retry budget do not block the redrive of others', async () => {
  const harness = await setUp({
    accounts: 1,
    rate: '200/s',
    pool: { breaker: { of: 1000, inARow: 1000 }, retry: { budget: '0%' } },
    sandbox: {
      behaviour: { retryAfter: '20' },
      script: ({ now }) =>
        now < start + second ? 'fail' : now < start + 3 * second ? 'rate_limit' : undefined,
    },
  })
  await harness.postMany(Array.from({ length: 150 }, () => ({})))
  await harness.runFor(2 * second)
  const failed = harness.counts().dead
  assert.ok(failed > 100, 'most of them may not be repeated')
  const fresh = await harness.postMany(Array.from({ length: 100 }, () => ({})))
  await harness.runFor(10 * second)
  assert.ok(harness.counts().dead > failed + 90)
  await harness.runFor(30 * second)
  const states = await Promise.all(fresh.map(({ id }) => harness.notification(id)))
  const waiting = states.filter(({ status }) => status !== 'delivered').length
  assert.equal(waiting, 0, 'what was never tried needs no budget')
  await harness.stop()
})

test('critical dead letters return before lower priorities that merely wait', async () => {
  const harness = await setUp({
    accounts: 1,
    rate: '10/s',
    sandbox: {
      behaviour: { retryAfter: '20' },
      script: ({ now }) => (now < start + second ? 'rate_limit' : undefined),
    },
  })
  const [critical] = await harness.postMany([{ priority: 'critical' }])
  await harness.runFor(10 * second)
  assert.equal((await harness.notification(critical!.id)).status, 'dead')
  await harness.runFor(9 * second)
  await harness.postMany(Array.from({ length: 600 }, () => ({ priority: 'low' as const })))
  await harness.runFor(6 * second)
  assert.equal((await harness.notification(critical!.id)).status, 'delivered')
  await harness.stop()
})

test('a restart within a second does not reset the one-second window', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-restart-'))
  const calls: number[] = []
  const setup = {
    accounts: 1,
    rate: '10/s',
    file: join(folder, 'sluice.db'),
    sandbox: {
      script: ({ now }: { readonly now: number }) => {
        calls.push(now)
        return undefined
      },
    },
  }
  const first = await setUp(setup)
  await first.postMany(Array.from({ length: 30 }, () => ({})))
  await first.runFor(100)
  assert.equal(calls.length, 10)
  await first.stop()
  const second = await setUp({ ...setup, startAt: first.clock.now() + 100 })
  await second.runFor(10_000)
  assert.equal(second.counts().delivered, 30)
  assert.equal(densest(calls, 1_000), 10)
  await second.stop()
  rmSync(folder, { recursive: true })
})

for (const end of ['stopped', 'killed'] as const) {
  test(`the hourly window of an account continues when the gateway is ${end}`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-restart-'))
    const file = join(folder, 'sluice.db')
    const copy = join(folder, 'copy.db')
    const calls: number[] = []
    const setup = {
      accounts: 2,
      rate: '20/s, 600/h',
      sandbox: {
        script: ({ now }: { readonly now: number }) => {
          calls.push(now)
          return undefined
        },
      },
    }
    const first = await setUp({ ...setup, file })
    await first.postMany(Array.from({ length: 2_000 }, () => ({})))
    await first.runFor(20 * second)
    const before = calls.length
    assert.ok(before > 700 && before < 1_000, `${before}`)
    if (end === 'killed') for (const tail of ['', '-wal']) copyFileSync(file + tail, copy + tail)
    await first.stop()
    assert.equal(calls.length, before)
    const again = await setUp({
      ...setup,
      file: end === 'killed' ? copy : file,
      startAt: first.clock.now() + minute,
    })
    await again.runFor(30 * minute)
    const wasted = 1_200 - calls.length
    assert.ok(end === 'stopped' ? wasted === 0 : wasted >= 0 && wasted <= 60, `${wasted} places were lost`)
    await again.runFor(31 * minute)
    assert.equal(again.counts().delivered, 2_000)
    assert.ok(densest(calls, 60 * minute) <= 1_200)
    await again.stop()
    rmSync(folder, { recursive: true })
  })
}

test('a store that does not write pauses calls under a long window, and they go on when it writes', async () => {
  let broken = false
  const inner = createMemoryStore()
  const store = overriding(inner, {
    async commit(change) {
      if (broken && change.accounts !== undefined) throw new SluiceError('STORE_UNAVAILABLE', 'away')
      return inner.commit(change)
    },
  })
  const harness = await setUp({ accounts: 1, rate: '1000/h', store, sandbox: {} })
  await harness.postMany(Array.from({ length: 10 }, () => ({})))
  await harness.runFor(second)
  assert.equal(harness.counts().delivered, 10)
  broken = true
  await harness.postMany(Array.from({ length: 100 }, () => ({})))
  await harness.runFor(10 * second)
  assert.equal(harness.counts().delivered, 50, 'what was written ahead')
  broken = false
  await harness.runFor(2 * second)
  assert.equal(harness.counts().delivered, 110)
  await harness.stop()
})

test('a probe without a verdict leaves the breaker open, and the next call is the probe', () => {
  const pool = new Pool({
    channel: 'webhook',
    provider: createSandbox({
      clock: { now: () => start, monotonic: () => start, at: () => () => undefined, soon: () => undefined },
    }),
    accounts: [{ account: { id: 'a', options: {} }, windows: [], rate: 'unlimited', concurrencyMax: 10 }],
    marginMs: 20,
    breaker: { failures: 0.5, of: 2, withinMs: 10_000, inARow: 10, coolDownMs: 1_000, coolDownMaxMs: 8_000 },
    now: start,
  })
  const failed = { outcome: 'failed', detail: '500' } as const
  const call = (now: number, result: SendResult) => {
    const [lease] = pool.lease(now, 1)
    assert.ok(lease !== undefined, `a call at ${now - start}`)
    lease.judge(now, result, 1)
    lease.end()
    return pool.report(now).accounts[0]!.status
  }
  assert.equal(call(start, { ...failed, recipientFault: true }), 'healthy')
  assert.equal(call(start, failed), 'healthy', 'the other call said nothing, so one of two is one of one')
  assert.equal(call(start, failed), 'open')
  assert.equal(call(start + 1_000, { ...failed, recipientFault: true }), 'open')
  assert.equal(call(start + 1_001, { outcome: 'delivered' }), 'healthy')
})
