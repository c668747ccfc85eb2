/** Probes report health, and metrics add up. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../../src/errors.ts'
import { message, startStub } from '../stub.ts'

const stub = await startStub()

test('the gateway is alive, and ready while the store is', async () => {
  assert.deepEqual((await stub.ask('GET', '/healthz')).body, { status: 'ok' })
  assert.deepEqual((await stub.ask('GET', '/readyz')).body, { status: 'ready' })
  for (const error of [new Error('disk full'), new SluiceError('STORE_UNAVAILABLE', 'No.')]) {
    stub.ping = () => Promise.reject(error)
    const { status, body, headers } = await stub.ask('GET', '/readyz')
    assert.deepEqual([status, body.code, headers.get('retry-after')], [503, 'STORE_UNAVAILABLE', '1'])
  }
  stub.ping = async () => {}
  assert.equal((await stub.ask('GET', '/healthz')).status, 200)
})

test('a probe names what fails: the store, a pool without a healthy account, the shutdown', async () => {
  let status: 'healthy' | 'blocked' = 'blocked'
  const account = {
    id: 'a',
    rate: '1/s',
    used: 0,
    blockedUntil: null,
    outUntil: null,
    outBecause: null,
    learnedRate: null,
    concurrency: 1,
  }
  const own = await startStub({
    drainDelayMs: 300,
    parts: {
      pools: () => [{ channel: 'email', provider: 'smtp', rate: '1/s', accounts: [{ ...account, status }] }],
    },
  })
  const pool = 'pool email (smtp): no account is healthy'
  const degraded = await own.ask('GET', '/readyz')
  assert.deepEqual([degraded.status, degraded.body.degraded], [200, [pool]], 'accepts go on')
  status = 'healthy'
  own.ping = () => Promise.reject(new SluiceError('STORE_UNAVAILABLE', 'The disk is full.'))
  const full = await own.ask('GET', '/readyz')
  assert.deepEqual([full.status, full.body.degraded], [503, ['store: The disk is full.']])
  own.ping = async () => {}
  const closed = own.close()
  const draining = await own.ask('GET', '/readyz')
  assert.deepEqual([draining.status, draining.body.degraded], [503, ['gateway: shutting down']])
  const accepted = await own.ask('POST', '/notifications', message)
  assert.equal(accepted.status, 202, 'the listener is still open')
  await closed
  await assert.rejects(fetch(`${own.url}/readyz`))
})

test('a gateway over the same record with another policy is named, and accepts go on', async () => {
  const own = await startStub({
    parts: { configurationDifferences: () => ['gateway web-2:9 has another policy'] },
  })
  const { status, body } = await own.ask('GET', '/readyz')
  assert.deepEqual([status, body.degraded], [200, ['fleet: gateway web-2:9 has another policy']])
  await own.close()
})

function value(text: string, name: string): number {
  const line = text.split('\n').find((each) => each.startsWith(`${name} `))
  assert.ok(line !== undefined, `${name} is missing in\n${text}`)
  return Number(line.split(' ')[1])
}

test('accepted is the sum of the states', async () => {
  for (const status of ['queued', 'queued', 'suppressed', 'scheduled'] as const) {
    stub.verdict = () => ({
      status,
      ...(status === 'suppressed'
        ? {
            timeline: [
              { at: 1, status: 'accepted' },
              { at: 1, status: 'suppressed', reason: 'duplicate' },
            ],
          }
        : {}),
    })
    await stub.ask('POST', '/notifications', message)
  }
  stub.verdict = () => ({})
  const { text, headers } = await stub.ask('GET', '/metrics')
  assert.match(headers.get('content-type') ?? '', /^text\/plain/)
  assert.equal(value(text, 'sluice_notifications{status="queued"}'), 2)
  assert.equal(value(text, 'sluice_notifications{status="suppressed"}'), 1)
  assert.equal(value(text, 'sluice_accepted_total{channel="email",priority="normal"}'), 4)
  assert.equal(value(text, 'sluice_notifications_unaccounted'), 0)
  assert.equal(value(text, 'sluice_suppressed_total{channel="email",reason="duplicate"}'), 1)
  assert.equal(value(text, 'sluice_state_changes_total{channel="email",status="accepted"}'), 4)
  assert.equal(value(text, 'sluice_accept_seconds_count'), 4)
  assert.ok(value(text, 'nodejs_eventloop_delay_seconds_count') >= 0)
  assert.ok(value(text, 'process_resident_memory_bytes') > 1e6)
})

test('a lost notification shows as unaccounted', async () => {
  const [[id]] = stub.notifications as unknown as [[string]]
  const lost = stub.notifications.get(id)!
  stub.notifications.delete(id)
  assert.equal(value((await stub.ask('GET', '/metrics')).text, 'sluice_notifications_unaccounted'), 1)
  stub.notifications.set(id, lost)
})

test('calls to providers are counted by their outcome', async () => {
  const [notification] = stub.notifications.values()
  for (const status of [
    'sending',
    'delivered',
    'scheduled',
    'queued',
    'dead',
    'failed',
    'delivered',
  ] as const) {
    for (const listener of stub.listeners) {
      listener({
        notification: notification!,
        events: [{ at: 1, status, provider: 'smtp', account: 'a', attempt: 1 }],
      })
    }
  }
  const { text } = await stub.ask('GET', '/metrics')
  const calls = (outcome: string) =>
    value(text, `sluice_provider_calls_total{channel="email",provider="smtp",outcome="${outcome}"}`)
  assert.deepEqual(['delivered', 'retry', 'rate_limited', 'dead', 'failed'].map(calls), [2, 1, 1, 1, 1])
})
