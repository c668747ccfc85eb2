/** Upgrades: tokens in both places, origins, the limits of connections, and invalid handshakes. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { closed, handshake, openRaw, said, startSockets, until } from './client.ts'

const keyed = await startSockets({ tokens: { good: {}, other: { tenant: 'globex' } } })
const keyless = await startSockets()

test('a token in the header Authorization opens a connection', async () => {
  const client = await keyed.open({ token: 'good' })
  assert.equal(client.socket.protocol, '')
  assert.deepEqual(said(await client.ask({ type: 'ping' })), { type: 'pong' })
})

test('a token as the second subprotocol opens one too, and the server selects sluice', async () => {
  const client = await keyed.open({ protocols: ['sluice', 'good'] })
  assert.equal(client.socket.protocol, 'sluice')
  assert.deepEqual(said(await client.ask({ type: 'ping' })), { type: 'pong' })
})

test('without a valid token the upgrade is answered 401 as a problem', async () => {
  for (const how of [
    {},
    { token: 'bad' },
    { protocols: ['sluice', 'bad'] },
    { protocols: ['sluice'] },
    { protocols: ['other', 'good'] },
  ]) {
    const { status, headers, body } = await keyed.refused(how)
    assert.equal(status, 401)
    assert.equal(body.code, 'UNAUTHENTICATED')
    assert.match(String(headers['content-type']), /^application\/problem\+json/)
    assert.equal(headers['www-authenticate'], 'Bearer')
  }
})

test('without keys the tenant is that of the header, and default without it', async () => {
  const [mine, same, other] = await Promise.all([
    keyless.open(),
    keyless.open({ tenant: 'default' }),
    keyless.open({ tenant: 'acme' }),
  ])
  for (const client of [same, other]) await client!.subscribe('orders')
  mine!.say({ type: 'publish', channel: 'orders', data: 1 })
  assert.deepEqual(said(await same!.next()), { type: 'message', channel: 'orders', data: 1 })
  assert.deepEqual(said(await other!.ask({ type: 'ping' })), { type: 'pong' })
})

test('without keys pages of other machines are refused, and those of this one are not', async () => {
  for (const origin of ['https://evil.example', 'http://localhost.evil.example', 'null', 'nonsense']) {
    const { status, body } = await keyless.refused({ client: { headers: { origin } } })
    assert.equal(status, 403, origin)
    assert.equal(body.code, 'FORBIDDEN')
  }
  for (const origin of ['http://localhost:5173', 'http://127.0.0.1:8000', 'https://[::1]'])
    await keyless.open({ client: { headers: { origin } } })
  await keyed.open({ token: 'good', client: { headers: { origin: 'https://shop.example' } } })
})

test('a header with an invalid tenant is 400', async () => {
  const { status, body } = await keyless.refused({ tenant: 'x'.repeat(300) })
  assert.equal(status, 400)
  assert.equal(body.code, 'INVALID_REQUEST')
})

test('a request for /ws without an upgrade is answered 426, and other paths do not upgrade', async () => {
  const response = await fetch(`${keyless.stub.url}/ws`)
  assert.equal(response.status, 426)
  assert.equal(response.headers.get('upgrade'), 'websocket')
  assert.equal(((await response.json()) as { code: string }).code, 'UPGRADE_REQUIRED')
  assert.equal((await fetch(`${keyed.stub.url}/ws`)).status, 401)
  assert.equal((await keyless.refused({ path: '/other' })).status, 404)
  assert.equal((await keyless.refused({ path: '/healthz' })).status, 200)
})

test('an invalid handshake is refused as a problem', async () => {
  for (const wrong of [
    handshake.replace('Version: 13', 'Version: 7'),
    handshake.replace('dGhlIHNhbXBsZSBub25jZQ==', 'short'),
    handshake.replace('GET', 'POST'),
    `${handshake}\r\nSec-WebSocket-Protocol: sluice,,sluice`,
  ]) {
    const { socket, text } = await openRaw(keyless.stub.url, `${wrong}\r\n\r\n`)
    await once(socket, 'close')
    assert.match(text(), /^HTTP\/1\.1 400 [\s\S]*"code":"INVALID_REQUEST"/)
  }
})

test('compression is not negotiated', async () => {
  const client = await keyless.open({ client: { perMessageDeflate: true } })
  assert.equal(client.socket.extensions, '')
})

test('the connection above the limit of a tenant is opened and closed with 4429, and others are not', async () => {
  const sockets = await startSockets({ connections: 3, tokens: { good: {}, other: { tenant: 'globex' } } })
  const first = [1, 2, 3].map(() => sockets.open({ token: 'good' }))
  const [one] = await Promise.all(first)
  const above = await sockets.open({ token: 'good' })
  assert.equal((await above.closed).code, 4429)
  await sockets.open({ token: 'other' })
  assert.deepEqual(said(await one!.ask({ type: 'ping' })), { type: 'pong' })
  one!.socket.close()
  await until(() => sockets.hub.report().connections === 3)
  const next = await sockets.open({ token: 'good' })
  assert.deepEqual(said(await next.ask({ type: 'ping' })), { type: 'pong' })
})

test('a flood of connections above the limit is answered 503 once too many of them linger', async () => {
  const sockets = await startSockets({ connections: 0 })
  // Bare sockets, which do not answer the closing.
  const flood = await Promise.all(
    Array.from({ length: 150 }, () => openRaw(sockets.stub.url, `${handshake}\r\n`)),
  )
  // One lingers for a second: a busy machine takes longer to connect all, and not to read what is sent at once.
  for (const { socket } of flood) socket.write('\r\n')
  await until(() => flood.every(({ text }) => text().includes('\r\n\r\n')))
  const refused = flood.filter(({ text }) => text().startsWith('HTTP/1.1 503'))
  assert.ok(refused.length >= 40, `${refused.length} were refused`)
  assert.match(refused[0]!.text(), /retry-after: 1[\s\S]*"code":"WS_UNAVAILABLE"/)
  await Promise.all(flood.map(({ socket }) => socket.destroyed || once(socket, 'close')))
})

test('an upgrade is answered 503 when the gateway has no connection left', async () => {
  const sockets = await startSockets({ connectionsMax: 2 })
  await Promise.all([sockets.open(), sockets.open({ tenant: 'acme' })])
  const { status, headers, body } = await sockets.refused({ tenant: 'globex' })
  assert.equal(status, 503)
  assert.equal(body.code, 'WS_UNAVAILABLE')
  assert.equal(headers['retry-after'], '1')
})

test('an upgrade that does not arrive in time is closed, and other connections are not affected', async () => {
  const sockets = await startSockets({ http: { requestTimeoutMs: 1_000 } })
  const client = await sockets.open()
  const { socket, text } = await openRaw(sockets.stub.url, `${handshake}\r\n`)
  const began = performance.now()
  const dripping = setInterval(() => socket.write('X-A: b\r\n'), 100)
  await closed(socket)
  clearInterval(dripping)
  assert.ok(performance.now() - began < 15_000)
  assert.match(text(), /^HTTP\/1\.1 408 /)
  assert.deepEqual(said(await client.ask({ type: 'ping' })), { type: 'pong' })
})

test('a graceful shutdown closes every connection with 1001 after sending the waiting frames', async () => {
  const sockets = await startSockets({ rate: '10/s' })
  const client = await sockets.open()
  await client.subscribe('orders')
  for (let n = 0; n < 15; n += 1) client.say({ type: 'publish', channel: 'orders', data: n })
  await client.nextOf('warning')
  const stopped = sockets.stub.close()
  const late = openRaw(sockets.stub.url, `${handshake}\r\n\r\n`).catch(() => undefined)
  assert.deepEqual(await client.closed, { code: 1001, reason: 'shutting down' })
  await stopped
  const data = client.heard.filter(({ type }) => type === 'message').map((message) => message.data)
  assert.deepEqual(
    data,
    Array.from({ length: 15 }, (_, n) => n),
  )
  const raw = await late
  if (raw !== undefined) assert.match(raw.text(), /^(HTTP\/1\.1 503 |$)/)
})
