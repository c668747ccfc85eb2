/** Notifications of the channel `websocket`, through a whole gateway and over real sockets. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { WebSocket } from 'ws'
import { createSite, type Site } from '../../child.ts'
import { Client } from './client.ts'

const policy = {
  version: 1,
  limits: [{ name: 'push', for: { channel: 'push' }, max: '1/day', over: 'drop' }],
}
const sandbox = { provider: 'sandbox' }

async function start(t: TestContext, config: object): Promise<Site> {
  const site = await createSite(t, { config, policy })
  await site.start()
  return site
}

async function connect(t: TestContext, site: Site, recipient: string): Promise<Client> {
  const client = new Client(new WebSocket(`${site.url.replace('http', 'ws')}/ws`))
  t.after(() => client.socket.terminate())
  await new Promise<void>((resolve, reject) => {
    client.socket.once('open', resolve)
    client.socket.once('error', reject)
  })
  await client.subscribe(`recipient:${recipient}`)
  return client
}

interface Shown {
  readonly notificationId: string
  readonly status: string
  readonly channel: string
  readonly requestedChannel?: string
  readonly timeline: readonly {
    readonly at: string
    readonly status: string
    readonly detail?: string
    readonly provider?: string
  }[]
}

async function post(site: Site, body: object): Promise<string> {
  const answer = await site.call('POST', '/api/v1/notifications', {
    recipient: { id: 'user-42', pushToken: 'token-42' },
    channel: 'websocket',
    content: { title: 'Shipped', text: 'Your order is on its way.' },
    data: { order: 1 },
    ...body,
  })
  assert.equal(answer.status, 202, answer.text)
  return answer.json<Shown>().notificationId
}

async function shown(site: Site, id: string): Promise<Shown> {
  return (await site.call('GET', `/api/v1/notifications/${id}`)).json<Shown>()
}

async function become(site: Site, id: string, status: string): Promise<Shown> {
  for (let tries = 0; tries < 3_000; tries += 1) {
    const found = await shown(site, id)
    if (found.status === status) return found
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  return assert.fail(`it did not become ${status}: ${JSON.stringify(await shown(site, id))}`)
}

test('a connected recipient gets a notification over every own connection, and no other recipient does', async (t) => {
  const site = await start(t, { pools: { push: sandbox } })
  const clients = await Promise.all(['user-42', 'user-42', 'user-7'].map((id) => connect(t, site, id)))
  const id = await post(site, { category: 'product' })
  const { timeline } = await become(site, id, 'delivered')
  assert.equal(timeline.at(-1)!.provider, 'websocket')
  for (const client of clients.slice(0, 2)) {
    const { channel, data } = await client.nextOf('message')
    assert.equal(channel, 'recipient:user-42')
    assert.deepEqual(data, {
      notificationId: id,
      category: 'product',
      content: { title: 'Shipped', text: 'Your order is on its way.' },
      data: { order: 1 },
    })
  }
  assert.equal((await clients[2]!.ask({ type: 'ping' })).type, 'pong')
})

test('a notification for an offline recipient waits for the connection, also over a restart', async (t) => {
  const site = await start(t, { pools: { push: sandbox } })
  const first = await post(site, { data: { n: 1 } })
  const { timeline } = await become(site, first, 'scheduled')
  assert.equal(timeline.at(-1)!.detail, 'not connected')
  const client = await connect(t, site, 'user-42')
  assert.deepEqual(((await client.nextOf('message')).data as { data: object }).data, { n: 1 })
  await become(site, first, 'delivered')
  client.socket.close()
  await client.closed

  const second = await post(site, { data: { n: 2 } })
  await become(site, second, 'scheduled')
  await site.terminate()
  await site.start()
  const again = await connect(t, site, 'user-42')
  assert.deepEqual(((await again.nextOf('message')).data as { data: object }).data, { n: 2 })
  await become(site, second, 'delivered')
})

test('a notification for an offline recipient expires: at its end, or when it has waited long enough', async (t) => {
  const site = await start(t, { pools: { push: sandbox }, websocket: { waitMax: '1500ms' } })
  const ends = await post(site, { expiresAt: new Date(Date.now() + 700).toISOString(), data: { n: 1 } })
  const waits = await post(site, { data: { n: 2 } })
  const first = (await become(site, ends, 'expired')).timeline.at(-1)!
  const last = (await become(site, waits, 'expired')).timeline.at(-1)!
  assert.equal(last.detail, 'not connected')
  const apartMs = Date.parse(last.at) - Date.parse(first.at)
  assert.ok(apartMs > 0, `the one that waits has ended ${apartMs} ms after the other`)
})

test('by configuration a notification for an offline recipient goes over another channel, under its limits', async (t) => {
  const absent = { default: 'fallback:push', security: 'drop' }
  const site = await start(t, { pools: { push: sandbox }, websocket: { absent } })
  const first = await become(site, await post(site, { data: { n: 1 } }), 'delivered')
  assert.deepEqual([first.channel, first.requestedChannel], ['push', 'websocket'])
  assert.equal(first.timeline.at(-1)!.provider, 'sandbox')
  // push allows one a day.
  const second = await become(site, await post(site, { data: { n: 2 } }), 'suppressed')
  assert.deepEqual([second.channel, second.requestedChannel], ['push', 'websocket'])
  // This recipient has no stored push token.
  await become(site, await post(site, { recipient: 'user-8' }), 'suppressed')
  await become(site, await post(site, { category: 'security', data: { n: 3 } }), 'suppressed')
  const client = await connect(t, site, 'user-42')
  const third = await post(site, { data: { n: 4 } })
  assert.equal((await become(site, third, 'delivered')).channel, 'websocket')
  await client.nextOf('message')
})

test('without any pools the sandbox takes the notification, and a connected recipient receives it all the same', async (t) => {
  const site = await start(t, {})
  await become(site, await post(site, { recipient: 'user-7' }), 'delivered')
  const client = await connect(t, site, 'user-42')
  const { timeline } = await become(site, await post(site, {}), 'delivered')
  assert.equal(timeline.at(-1)!.provider, 'sandbox')
  await client.nextOf('message')
})

test('a cancelled notification is not delivered to a recipient who connects later', async (t) => {
  const site = await start(t, { pools: { push: sandbox } })
  const id = await post(site, {})
  await become(site, id, 'scheduled')
  assert.equal((await site.call('DELETE', `/api/v1/notifications/${id}`)).status, 204)
  const client = await connect(t, site, 'user-42')
  assert.equal((await client.ask({ type: 'ping' })).type, 'pong')
  assert.equal((await shown(site, id)).status, 'cancelled')
})
