/**
 * A webhook account that says itself where it calls, over a real socket: whom it tells of needs no address there.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSite } from '../child.ts'
import { createHttpSink } from '../sinks/http.ts'

interface Taken {
  readonly status: string
  readonly notificationId: string
  readonly outcome: string
  readonly errors: readonly { readonly path: string }[]
  readonly results: readonly Taken[]
}

const note = { channel: 'webhook', content: { text: 'Hello' } }

test('a webhook account with a url calls it for people who have none of their own', async (t) => {
  const sink = await createHttpSink()
  t.after(() => sink.close())
  const pool = { provider: 'webhook', accounts: [{ id: 'hook-1', url: `${sink.url}/in` }] }
  const site = await createSite(t, { config: { log: { level: 'warn' }, pools: { webhook: pool } } })
  await site.start()
  const post = async (path: string, body: object) => await site.call('POST', `/api/v1${path}`, body)
  const single = await post('/notifications', { ...note, recipient: 'ada' })
  assert.equal(single.status, 202)
  const dry = await post('/decisions', { ...note, recipient: { id: 'eve' } })
  assert.equal(dry.json<Taken>().outcome, 'send')
  const batch = await post('/notifications/batch', { ...note, recipients: [{ id: 'bob' }, 'joe'] })
  const ids = [single.json<Taken>(), ...batch.json<Taken>().results].map((taken) => taken.notificationId)
  while (sink.requests.length < ids.length) await new Promise((resolve) => setTimeout(resolve, 20))
  const arrived = sink.requests.map(({ path, body }) => ({ path, ...JSON.parse(body) }))
  assert.deepEqual(arrived.map((each) => [each.path, each.recipient]).sort(), [
    ['/in', 'ada'],
    ['/in', 'bob'],
    ['/in', 'joe'],
  ])
})

test('where one account of the channel calls the recipient, the recipient needs an address', async (t) => {
  const accounts = [{ id: 'own', url: 'http://127.0.0.1:9/in' }, { id: 'theirs' }]
  const pools = { webhook: { provider: 'webhook', accounts } }
  const site = await createSite(t, { config: { log: { level: 'warn' }, pools } })
  await site.start()
  const answer = await site.call('POST', '/api/v1/notifications', { ...note, recipient: 'ada' })
  assert.equal(answer.status, 400)
  assert.equal(answer.json<Taken>().errors[0]?.path, '/recipient/webhookUrl')
})
