/** Failures that last minutes or hours, in virtual time: greylisting and outages. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Provider, SendResult } from '../../src/ports.ts'
import { createHarness, day, type Harness, hour, minute, second } from '../harness.ts'
import { type Call, createScripted, delivered } from './scripted.ts'

const start = Date.UTC(2026, 10, 21, 12)
const greylisted: SendResult = {
  outcome: 'failed',
  recipientFault: true,
  retry: 'greylisting',
  detail: '450 4.7.1 Greylisted, come back later',
}
const away: SendResult = { outcome: 'failed', retry: 'outage', detail: 'ECONNREFUSED' }

interface Scene extends Harness {
  /** Instants of the calls, since the start. */
  readonly calledAt: number[]
}

async function setUp(
  answer: (sinceStart: number, call: Call) => SendResult,
  pool: object = {},
): Promise<Scene> {
  const calledAt: number[] = []
  const harness = await createHarness({
    start,
    policy: { version: 1, limits: [] },
    config: {
      tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 1_000_000 } },
      pools: {
        email: { provider: 'sandbox', accounts: [{ id: 'a', rate: '100/s' }], ...pool },
        websocket: { provider: 'sandbox' },
      },
    },
    providers(clock) {
      const script = createScripted((_, call) => {
        calledAt.push(clock.now() - start)
        return answer(clock.now() - start, call)
      })
      return [script.provider satisfies Provider]
    },
  })
  return { ...harness, calledAt }
}

test('a mail greylisted for ten minutes arrives after one or two retries', async () => {
  const harness = await setUp((since) => (since < 10 * minute ? greylisted : delivered))
  const { id } = await harness.post()
  await harness.runFor(25 * minute)
  const { status, timeline } = await harness.notification(id)
  assert.equal(status, 'delivered', JSON.stringify(timeline))
  assert.ok(harness.calledAt.length <= 3, `${harness.calledAt}`)
  assert.ok(harness.calledAt[1]! >= 5 * minute, 'not before a server that greylists takes it')
  await harness.check()
  await harness.stop()
})

test('a thousand greylisted mails all arrive without retry budget', async () => {
  const harness = await setUp((since) => (since < 10 * minute ? greylisted : delivered))
  await harness.postMany(Array.from({ length: 1_000 }, () => ({})))
  await harness.runFor(30 * minute)
  assert.deepEqual([harness.counts().delivered, harness.counts().dead], [1_000, 0])
  const report = harness.gateway.pools()[0]!.accounts[0]!
  assert.equal(report.status, 'healthy')
  await harness.stop()
})

test('greylisting that never ends is given up after four days', async () => {
  const harness = await setUp(() => greylisted)
  const { id } = await harness.post()
  await harness.runFor(4 * day - hour)
  assert.equal((await harness.notification(id)).status, 'scheduled')
  await harness.runFor(8 * hour)
  const { status, timeline } = await harness.notification(id)
  assert.deepEqual([status, timeline.at(-1)!.reason], ['dead', 'attempts_exhausted'])
  assert.ok(harness.calledAt.length < 40, `${harness.calledAt.length} calls`)
  await harness.stop()
})

for (const accounts of [1, 2]) {
  test(`an outage of two hours ends in delivery, with ${accounts} account(s) that are down`, async () => {
    const harness = await setUp((since) => (since < 2 * hour ? away : delivered), {
      accounts: Array.from({ length: accounts }, (_, index) => ({ id: `a${index}`, rate: '100/s' })),
    })
    await harness.postMany(Array.from({ length: 100 }, () => ({})))
    await harness.runUntil(start + 2 * hour)
    assert.equal(harness.counts().delivered, 0)
    await harness.runFor(25 * minute)
    assert.equal(harness.counts().delivered, 100, JSON.stringify(harness.counts()))
    await harness.check()
    await harness.stop()
  })
}

test('retries are bounded by expiresAt and by configured attempts', async () => {
  const harness = await setUp(() => away, { breaker: { of: 10_000 } })
  const expiring = await harness.post({ expiresAt: start + hour })
  await harness.runFor(hour + second)
  assert.equal((await harness.notification(expiring.id)).status, 'expired')
  await harness.stop()
  const bounded = await setUp(() => away, { retry: { attempts: 3 } })
  const { id } = await bounded.post()
  await bounded.runFor(minute)
  const { status, timeline } = await bounded.notification(id)
  assert.deepEqual([status, timeline.at(-1)!.reason], ['dead', 'attempts_exhausted'])
  await bounded.stop()
})

test('a service is not called before its Retry-After', async () => {
  const harness = await setUp((since) =>
    since < 20 * minute ? { ...away, outcome: 'failed', retryAfter: '1200' } : delivered,
  )
  await harness.post()
  await harness.runFor(30 * minute)
  assert.deepEqual(harness.calledAt, [0, 20 * minute])
  await harness.stop()
})
