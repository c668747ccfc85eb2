/** Real tokens on a whole gateway: both places, scopes, subjects, tenants, and expiry. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { createSite } from '../../child.ts'
import { Client } from './client.ts'

const secret = 'a secret of the tests, of more than 32 bytes'
const base64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Signed here by hand (RFC 7515), so that it shares nothing with the verifier. */
function tokenOf(claims: object, seconds = 60): string {
  const all = {
    iss: 'https://issuer.example',
    aud: 'sluice',
    exp: Math.floor(Date.now() / 1_000) + seconds,
    tenant: { id: 'acme' },
    module: { id: 'shop' },
    ...claims,
  }
  const signed = `${base64({ alg: 'HS256', typ: 'JWT' })}.${base64(all)}`
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
}

test('a token opens a connection, limits it to its scopes, and ends it at its expiry', {
  timeout: 60_000,
}, async (t) => {
  const auth = { jwt: { secret, issuer: 'https://issuer.example', audience: 'sluice' } }
  const site = await createSite(t, { config: { auth, pools: { push: { provider: 'sandbox' } } } })
  await site.start()
  const url = `${site.url.replace('http', 'ws')}/ws`

  async function connect(token: string, where: 'header' | 'protocol'): Promise<Client | number> {
    const socket =
      where === 'header'
        ? new WebSocket(url, { headers: { authorization: `Bearer ${token}` } })
        : new WebSocket(url, ['sluice', token])
    t.after(() => socket.terminate())
    const client = new Client(socket)
    return new Promise((resolve) => {
      socket.once('open', () => resolve(client))
      socket.once('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0))
    })
  }
  async function open(claims: object, seconds?: number): Promise<Client> {
    const client = await connect(tokenOf(claims, seconds), 'protocol')
    assert.ok(client instanceof Client, String(client))
    return client
  }

  for (const where of ['header', 'protocol'] as const) {
    assert.ok((await connect(tokenOf({ sub: 'ada' }), where)) instanceof Client)
    const wrong = [
      tokenOf({ aud: 'others' }),
      tokenOf({}, -60),
      tokenOf({ tenant: undefined }),
      `${tokenOf({})}x`,
      `${base64({ alg: 'none' })}.${base64({ tenant: { id: 'acme' } })}.`,
    ]
    for (const token of wrong) assert.equal(await connect(token, where), 401, where)
  }

  const [ada, publisher, other] = [
    await open({ sub: 'ada' }),
    await open({ scope: 'sluice:publish' }),
    await open({ sub: 'ada', tenant: { id: 'globex' }, scope: 'sluice:publish' }),
  ]
  for (const client of [ada, other]) {
    await client.subscribe('orders')
    await client.subscribe('recipient:ada')
  }
  assert.equal((await ada.ask({ type: 'publish', channel: 'orders', data: 1 })).code, 'WS_FORBIDDEN')
  assert.equal((await publisher.ask({ type: 'subscribe', channel: 'recipient:ada' })).code, 'WS_FORBIDDEN')
  publisher.say({ type: 'publish', channel: 'orders', data: 2 })
  assert.equal((await ada.nextOf('message')).data, 2)
  const body = { recipient: 'ada', channel: 'websocket', content: { text: 'Hello' } }
  const headers = { authorization: `Bearer ${tokenOf({})}` }
  assert.equal((await site.call('POST', '/api/v1/notifications', body, headers)).status, 202)
  assert.equal((await ada.nextOf('message')).channel, 'recipient:ada')
  assert.equal((await other.ask({ type: 'ping' })).type, 'pong')

  const short = await open({ sub: 'bob' }, 2)
  assert.equal((await short.closed).code, 4401)
})
