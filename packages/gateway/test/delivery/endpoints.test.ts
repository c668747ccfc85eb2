/** A failure at one recipient’s own endpoint affects no other, in virtual time, with a provider that calls endpoints. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Endpoints, endpointCoolDownMs, newOriginCalls } from '../../src/delivery/endpoints.ts'
import { channels, type Notification } from '../../src/model.ts'
import type { Message, SendResult } from '../../src/ports.ts'
import type { VirtualClock } from '../../src/simulation/clock.ts'
import { createHarness, day, type Harness, hour, minute, second } from '../harness.ts'
import { delivered } from './scripted.ts'

const start = Date.UTC(2026, 10, 21, 12)
const [bad, good] = ['http://bad.example', 'http://good.example']

interface Called {
  readonly at: number
  readonly url: string
}

interface Scene extends Harness {
  readonly calls: Called[]
  /** Posts `count` notifications for one endpoint. */
  send(url: string, count?: number): Promise<readonly Notification[]>
  states(url: string): Promise<Readonly<Record<string, number>>>
}

/** `answer` may take its time. */
async function setUp(
  answer: (url: string, clock: VirtualClock, message: Message) => SendResult | Promise<SendResult>,
  pool: object = {},
): Promise<Scene> {
  const calls: Called[] = []
  const sent = new Map<string, string[]>()
  const harness = await createHarness({
    start,
    policy: { version: 1, limits: [] },
    config: {
      tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 1_000_000 } },
      pools: {
        webhook: { provider: 'sandbox', accounts: [{ id: 'a', rate: '1000/s' }], ...pool },
        websocket: { provider: 'sandbox' },
      },
    },
    providers: (clock) => [
      {
        name: 'sandbox',
        idempotent: false,
        channels,
        endpointOf: ({ webhookUrl }) => webhookUrl,
        async send(message, _, signal) {
          const url = message.to.webhookUrl!
          calls.push({ at: clock.now() - start, url })
          const late = new Promise<SendResult>((resolve) =>
            signal.addEventListener('abort', () =>
              resolve({
                outcome: 'failed',
                detail: 'no answer in time',
                maybeDelivered: true,
                endpoint: url,
              }),
            ),
          )
          return Promise.race([answer(url, clock, message), late])
        },
        close: () => Promise.resolve(),
      },
    ],
  })
  return {
    ...harness,
    calls,
    async send(url, count = 1) {
      const drafts = Array.from({ length: count }, () => ({
        channel: 'webhook' as const,
        to: { id: url, webhookUrl: url },
      }))
      const notifications = await harness.postMany(drafts)
      sent.set(url, [...(sent.get(url) ?? []), ...notifications.map(({ id }) => id)])
      return notifications
    },
    async states(url) {
      const counts: Record<string, number> = {}
      for (const id of sent.get(url) ?? []) {
        const { status } = await harness.notification(id)
        counts[status] = (counts[status] ?? 0) + 1
      }
      return counts
    },
  }
}

const accountOf = (harness: Harness) =>
  harness.gateway.pools().find(({ channel }) => channel === 'webhook')!.accounts[0]!

test('a 429 with a Retry-After of a day blocks exactly its endpoint, to the second', async () => {
  const harness = await setUp((url, clock) =>
    url === bad && clock.now() < start + day
      ? { outcome: 'rate_limited', retryAfter: '86400', detail: '429', endpoint: bad }
      : delivered,
  )
  await harness.send(bad)
  await harness.runFor(second)
  const [waits] = await harness.send(bad, 20)
  await harness.send(good, 100)
  await harness.runFor(2 * second)
  assert.deepEqual(await harness.states(good), { delivered: 100 })
  assert.deepEqual(await harness.states(bad), { scheduled: 21 })
  assert.equal(accountOf(harness).status, 'healthy')
  const { attempts, timeline } = await harness.notification(waits!.id)
  assert.deepEqual([attempts, timeline.at(-1)!.reason], [0, 'provider_capacity'], 'it was no attempt')
  await harness.runUntil(start + day - second)
  assert.equal(harness.calls.filter(({ url }) => url === bad).length, 1)
  await harness.runFor(minute)
  assert.deepEqual(await harness.states(bad), { delivered: 21 })
  await harness.check()
  await harness.stop()
})

test('a failing endpoint is paused, and probed by one call at a time until it works', async () => {
  const harness = await setUp((url, clock) =>
    url === bad && clock.now() < start + hour
      ? { outcome: 'failed', detail: '500', endpoint: bad, retry: 'outage' }
      : delivered,
  )
  await harness.send(bad, 50)
  for (let minutes = 0; minutes < 60; minutes += 1) {
    await harness.send(good, 10)
    await harness.runFor(minute)
  }
  assert.deepEqual(await harness.states(good), { delivered: 600 })
  assert.equal(accountOf(harness).status, 'healthy')
  const calls = harness.calls.filter(({ url }) => url === bad).length
  assert.ok(calls < 25, `${calls} calls in an hour`)
  await harness.runFor(hour)
  assert.deepEqual(await harness.states(bad), { delivered: 50 })
  await harness.check()
  await harness.stop()
})

test('hanging endpoints do not take the concurrency of others', async () => {
  let hang = true
  const hanging = (url: string) => url.includes('hangs')
  const harness = await setUp(
    (url) => (hang && hanging(url) ? new Promise<SendResult>(() => undefined) : delivered),
    { accounts: [{ id: 'a', concurrency: 20, rate: '1000/s' }], timeout: '10s', adaptive: false },
  )
  await harness.send(good, 5)
  await harness.runFor(second)
  for (let index = 0; index < 30; index += 1) await harness.send(`http://hangs-${index}.example`, 10)
  await harness.runFor(100)
  assert.equal(
    harness.calls.filter(({ url }) => hanging(url)).length,
    15,
    'three quarters of the calls at once',
  )
  await harness.send(good, 200)
  await harness.runFor(second)
  assert.deepEqual(await harness.states(good), { delivered: 205 })
  assert.equal(accountOf(harness).status, 'healthy')
  hang = false
  await harness.runFor(hour)
  assert.equal(harness.counts().delivered, 505, 'and the hung ones arrive when their endpoint works again')
  await harness.stop()
})

test('a notification that waits for a call to its endpoint leaves as soon as the call ends, in order', async () => {
  const harness = await setUp(async (_, clock) => {
    await new Promise<void>((resolve) => clock.at(clock.now() + 100, resolve))
    return delivered
  })
  await harness.send(good, 200)
  await harness.runFor(100 * 12)
  // Four at once, then one more with each delivery: 4 + 8 + 16 + 32 + 32 + …
  assert.deepEqual(await harness.states(good), { delivered: 200 })
  await harness.check()
  await harness.stop()
})

test('a notification waiting for an endpoint ends when it expires, is cancelled, or no call succeeds for days', async () => {
  const harness = await setUp(() => ({
    outcome: 'rate_limited',
    retryAfter: '3600',
    detail: '429',
    endpoint: bad,
  }))
  await harness.send(bad)
  await harness.runFor(second)
  const to = { id: 'bad', webhookUrl: bad }
  const expiring = await harness.post({ channel: 'webhook', to, expiresAt: start + 10 * minute })
  const unwanted = await harness.post({ channel: 'webhook', to })
  const [patient] = await harness.send(bad)
  await harness.runFor(second)
  await harness.done(harness.gateway.gate.cancel('default', unwanted.id))
  await harness.runFor(11 * minute)
  assert.equal((await harness.notification(expiring.id)).status, 'expired')
  assert.equal((await harness.notification(unwanted.id)).status, 'cancelled')
  await harness.runFor(3 * day + 2 * hour)
  const { status, timeline } = await harness.notification(patient!.id)
  assert.deepEqual([status, timeline.at(-1)!.reason], ['dead', 'attempts_exhausted'])
  await harness.check()
  await harness.stop()
})

const place = (endpoints: Endpoints, name: string, now = start, concurrency = 64) => {
  const entered = endpoints.enter(name, concurrency, now)
  assert.ok(entered.goes, `${name} has no room`)
  return entered
}
const waits = (endpoints: Endpoints, name: string, now = start) => {
  const entered = endpoints.enter(name, 64, now)
  assert.ok(!entered.goes, `${name} has room`)
  return entered.at
}

test('a failing hook is blamed alone, an unreachable host for all of its hooks', () => {
  const endpoints = new Endpoints()
  const fail = (name: string, endpoint: string) =>
    place(endpoints, name).end(start, { outcome: 'failed', detail: '', endpoint }, 1)
  for (let count = 0; count < 5; count += 1) fail(`${bad}/a`, `${bad}/a`)
  assert.equal(waits(endpoints, `${bad}/a`), start + endpointCoolDownMs)
  place(endpoints, `${bad}/b`).undo(start)
  for (let count = 0; count < 5; count += 1) fail(`${bad}/b`, bad)
  assert.equal(waits(endpoints, `${bad}/c`), start + endpointCoolDownMs)
})

test('names and parked notifications are bounded: the oldest name is dropped, further notifications wait on record', () => {
  const endpoints = new Endpoints({ namesMax: 100, parkedMax: 2 })
  const held = place(endpoints, bad)
  for (let index = 0; index < 1_000; index += 1)
    place(endpoints, `http://h${index}.example`).end(start, delivered, 1)
  assert.equal(endpoints.size, 100)
  held.end(start, { outcome: 'rate_limited', detail: '', retryAfter: '60', endpoint: bad }, 1)
  assert.equal(waits(endpoints, bad), start + minute, 'what is under way is not forgotten')
  for (let count = 0; count < newOriginCalls; count += 1) place(endpoints, good)
  const notification = { id: 'n' } as Notification
  for (let count = 0; count < 2; count += 1) {
    const wait = endpoints.enter(good, 64, start)
    assert.ok(!wait.goes && wait.at === undefined)
    endpoints.park(wait, notification)
  }
  assert.ok(waits(endpoints, good)! > start + second)
})

test('notifications waiting on record return one after the other, not all at once', () => {
  const endpoints = new Endpoints()
  place(endpoints, bad).end(
    start,
    { outcome: 'rate_limited', detail: '', retryAfter: '60', endpoint: bad },
    1,
  )
  const instants = Array.from({ length: 1_000 }, () => waits(endpoints, bad)!)
  assert.equal(instants[0], start + minute)
  assert.ok(new Set(instants).size > 900)
  assert.ok(Math.max(...instants) < start + minute + 10 * minute)
})
