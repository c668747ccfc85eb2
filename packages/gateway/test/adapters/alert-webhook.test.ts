import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { createAlertWebhook } from '../../src/adapters/alert-webhook.ts'
import { createSystemClock } from '../../src/adapters/clock.ts'
import { createHttpSink } from '../sinks/http.ts'

const key = Buffer.from('a key for alerts')
const alert = {
  id: '01ALERT',
  type: 'account.opened',
  at: Date.UTC(2026, 10, 21, 12),
  channel: 'email',
  provider: 'smtp',
  account: 'main',
  until: Date.UTC(2026, 10, 21, 12, 0, 5),
} as const

test('an alert is sent signed, and retried after a failure', async (t) => {
  const sink = await createHttpSink({ rules: [{ status: 503, times: 1 }] })
  t.after(() => sink.close())
  const troubles: string[] = []
  const alerts = createAlertWebhook({
    url: `${sink.url}/oncall`,
    secret: `whsec_${key.toString('base64')}`,
    clock: createSystemClock(),
    onError: (what) => troubles.push(what),
  })
  alerts.send(alert)
  for (let tries = 0; tries < 1_000 && sink.requests.length < 2; tries += 1) await sleep(50)
  await alerts.close()
  assert.deepEqual(troubles, [])
  const [first, second] = sink.requests
  assert.equal(second?.body, first?.body)
  assert.deepEqual(JSON.parse(second!.body), {
    ...alert,
    at: '2026-11-21T12:00:00.000Z',
    until: '2026-11-21T12:00:05.000Z',
  })
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature } = second!.headers
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${second!.body}`).digest('base64')
  assert.deepEqual([id, signature], [alert.id, `v1,${expected}`])
})

test('an alert about complaints names the tenant and the category, and the end of the pause', async (t) => {
  const sink = await createHttpSink({})
  t.after(() => sink.close())
  const alerts = createAlertWebhook({
    url: `${sink.url}/oncall`,
    secret: undefined,
    clock: createSystemClock(),
    onError: (what) => assert.fail(what),
  })
  const { id, at, until } = alert
  const paused = {
    ...{ id, at, until, type: 'complaints.paused' as const, tenant: 'acme', category: 'marketing' },
    ...{ delivered: 2_000, complained: 30, bound: 0.0083 },
  }
  alerts.send(paused)
  for (let tries = 0; tries < 1_000 && sink.requests.length < 1; tries += 1) await sleep(20)
  await alerts.close()
  assert.deepEqual(JSON.parse(sink.requests[0]!.body), {
    ...paused,
    at: '2026-11-21T12:00:00.000Z',
    until: '2026-11-21T12:00:05.000Z',
  })
})

test('an alert that cannot be delivered is dropped after its retries, and logged', async () => {
  const troubles: string[] = []
  const alerts = createAlertWebhook({
    url: 'http://127.0.0.1:9/',
    secret: undefined,
    clock: createSystemClock(),
    onError: (what) => troubles.push(what),
  })
  alerts.send(alert)
  await sleep(50)
  await alerts.close()
  await sleep(1_500)
  assert.deepEqual(troubles, ['alert account.opened of main'])
})

test('five hundred alerts at once are all delivered, a few at a time', async (t) => {
  const sink = await createHttpSink({ rules: [{ delayMs: 5 }] })
  t.after(() => sink.close())
  const troubles: string[] = []
  const alerts = createAlertWebhook({
    url: sink.url,
    secret: undefined,
    clock: createSystemClock(),
    onError: (what) => troubles.push(what),
  })
  for (let index = 0; index < 500; index += 1) alerts.send({ ...alert, id: `${index}` })
  for (let tries = 0; tries < 2_000 && sink.requests.length < 500; tries += 1) await sleep(50)
  await alerts.close()
  assert.equal(new Set(sink.requests.map(({ headers }) => headers['webhook-id'])).size, 500)
  assert.deepEqual(troubles, [])
  assert.ok(sink.connections.opened <= 16, `${sink.connections.opened} connections`)
})

test('an unresponsive receiver fills only a bounded queue; old alerts are dropped, and no error names its path', async (t) => {
  const sink = await createHttpSink({ rules: [{ do: 'hang' }] })
  t.after(() => sink.close())
  const troubles: { readonly what: string; readonly text: string }[] = []
  const clock = createSystemClock()
  let passedMs = 0
  const alerts = createAlertWebhook({
    url: `${sink.url}/secret-path`,
    secret: `whsec_${key.toString('base64')}`,
    clock: {
      ...clock,
      now: () => clock.now() + passedMs,
      at: (instant, callback) => clock.at(instant - passedMs, callback),
    },
    onError: (what, error) => troubles.push({ what, text: inspect(error, { depth: 5 }) }),
  })
  for (let index = 0; index < 1_200; index += 1) alerts.send({ ...alert, id: `${index}` })
  assert.equal(
    troubles.length,
    192,
    'eight are on their way, a thousand wait, and whoever sent them waited for nothing',
  )
  for (let tries = 0; tries < 1_000 && sink.connections.open < 8; tries += 1) await sleep(50)
  assert.equal(sink.connections.open, 8)
  passedMs = 120_000
  sink.hangUp()
  // The eight give up one after another with the stop; what is old by then is not even tried.
  await alerts.close()
  for (let tries = 0; tries < 600 && troubles.length < 1_200; tries += 1) await sleep(50)
  assert.equal(troubles.length, 1_200)
  assert.equal(troubles.filter(({ text }) => text.includes('not heard in time')).length, 1_000)
  for (const { text } of troubles)
    assert.doesNotMatch(text, new RegExp(`secret-path|${key.toString('base64')}`))
})
