import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
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

test('an alert is told signed, and again when the first time fails', async (t) => {
  const sink = await createHttpSink({ rules: [{ status: 503, times: 1 }] })
  t.after(() => sink.close())
  const troubles: string[] = []
  const alerts = createAlertWebhook({
    url: `${sink.url}/oncall`,
    secret: `whsec_${key.toString('base64')}`,
    clock: createSystemClock(),
    onTrouble: (what) => troubles.push(what),
  })
  alerts.send(alert)
  for (let tries = 0; tries < 100 && sink.requests.length < 2; tries += 1) await sleep(50)
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

test('an alert that nobody hears is given up at the end, and logged', async () => {
  const troubles: string[] = []
  const alerts = createAlertWebhook({
    url: 'http://127.0.0.1:9/',
    secret: undefined,
    clock: createSystemClock(),
    onTrouble: (what) => troubles.push(what),
  })
  alerts.send(alert)
  await sleep(50)
  await alerts.close()
  await sleep(1_500)
  assert.deepEqual(troubles, ['alert account.opened of main'])
})
