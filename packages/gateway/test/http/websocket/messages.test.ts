/** The messages of a WebSocket, and invalid ones. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { said, startSockets } from './client.ts'

const scopes = new Set(['sluice:publish'])
const sockets = await startSockets({
  tokens: {
    ada: { subject: 'ada', scopes },
    bob: { subject: 'bob' },
    nobody: { scopes },
    eve: { tenant: 'globex', subject: 'ada', scopes },
  },
})

test('a published message is sent to every subscriber of the channel, the publisher too', async () => {
  const [ada, bob] = await Promise.all([sockets.open({ token: 'ada' }), sockets.open({ token: 'bob' })])
  assert.deepEqual(said(await ada!.ask({ type: 'subscribe', channel: 'orders' })), {
    type: 'subscribed',
    channel: 'orders',
  })
  await bob!.subscribe('orders')
  const data = { id: 7, text: 'Grüße 👋', deep: [null, true, 1.5] }
  const message = { type: 'message', channel: 'orders', data }
  assert.deepEqual(said(await ada!.ask({ type: 'publish', channel: 'orders', data })), message)
  assert.deepEqual(said(await bob!.next()), message)
  ada!.say({ type: 'publish', channel: 'other', data: 1 })
  assert.deepEqual(said(await bob!.ask({ type: 'ping' })), { type: 'pong' })
})

test('a message of any size up to the limit arrives whole', async () => {
  const ada = await sockets.open({ token: 'ada' })
  await ada.subscribe('sizes')
  for (const length of [0, 1, 80, 81, 82, 124, 125, 126, 127, 65_400 - 1, 65_400, 65_485]) {
    const data = 'x'.repeat(length)
    assert.deepEqual(said(await ada.ask({ type: 'publish', channel: 'sizes', data })), {
      type: 'message',
      channel: 'sizes',
      data,
    })
  }
})

test('an unsubscribed client receives no more, and repeating either request changes nothing', async () => {
  const ada = await sockets.open({ token: 'ada' })
  await ada.subscribe('news')
  await ada.subscribe('news')
  assert.deepEqual(said(await ada.ask({ type: 'publish', channel: 'news', data: 1 })), {
    type: 'message',
    channel: 'news',
    data: 1,
  })
  for (let twice = 0; twice < 2; twice += 1) {
    assert.deepEqual(said(await ada.ask({ type: 'unsubscribe', channel: 'news' })), {
      type: 'unsubscribed',
      channel: 'news',
    })
  }
  ada.say({ type: 'publish', channel: 'news', data: 2 })
  assert.deepEqual(said(await ada.ask({ type: 'ping' })), { type: 'pong' })
})

test('equal channel names of two tenants are different channels, whatever the names', async () => {
  const [ada, eve] = await Promise.all([sockets.open({ token: 'ada' }), sockets.open({ token: 'eve' })])
  for (const channel of ['orders', 'acme:orders', 'recipient:ada']) await eve!.subscribe(channel)
  for (const channel of ['orders', 'acme:orders', 'globex:orders'])
    ada!.say({ type: 'publish', channel, data: 'secret' })
  await ada!.ask({ type: 'ping' })
  assert.deepEqual(said(await eve!.ask({ type: 'ping' })), { type: 'pong' })
})

test('publishing needs the scope', async () => {
  const bob = await sockets.open({ token: 'bob' })
  const { code, type, channel } = await bob.ask({ type: 'publish', channel: 'orders', data: 1 })
  assert.deepEqual([type, code, channel], ['error', 'WS_FORBIDDEN', 'orders'])
  assert.deepEqual(said(await bob.ask({ type: 'ping' })), { type: 'pong' })
})

test('the channel of a recipient needs a token with that sub, and carries notifications only', async () => {
  const [ada, bob, nobody] = await Promise.all(
    ['ada', 'bob', 'nobody'].map((token) => sockets.open({ token })),
  )
  await ada!.subscribe('recipient:ada')
  for (const client of [bob!, nobody!]) {
    const { code } = await client.ask({ type: 'subscribe', channel: 'recipient:ada' })
    assert.equal(code, 'WS_FORBIDDEN')
  }
  assert.equal(
    (await nobody!.ask({ type: 'subscribe', channel: 'recipient:undefined' })).code,
    'WS_FORBIDDEN',
  )
  assert.equal((await nobody!.ask({ type: 'subscribe', channel: 'recipient:' })).code, 'WS_FORBIDDEN')
  assert.equal((await ada!.ask({ type: 'publish', channel: 'recipient:ada', data: 1 })).code, 'WS_FORBIDDEN')
})

test('without keys every recipient channel is open', async () => {
  const keyless = await startSockets()
  const client = await keyless.open()
  await client.subscribe('recipient:user-42')
  assert.deepEqual(keyless.hub.areConnected([{ tenant: 'default', recipient: 'user-42' }]), [true])
  assert.deepEqual(keyless.hub.areConnected([{ tenant: 'acme', recipient: 'user-42' }]), [false])
})

const deep = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels)
const bad: Readonly<Record<string, string | object>> = {
  'no JSON': 'hello',
  nothing: '',
  'half of JSON': '{"type":"ping"',
  'no object': '[]',
  'a null': 'null',
  'no type': {},
  'a type that is none': { type: 'hello' },
  'a type of a prototype': { type: 'constructor' },
  'a type that is no text': { type: ['ping'] },
  'an unknown field': { type: 'ping', at: 1 },
  'no channel': { type: 'subscribe' },
  'an empty channel': { type: 'subscribe', channel: '' },
  'a channel that is no text': { type: 'subscribe', channel: 7 },
  'a channel that is too long': { type: 'subscribe', channel: 'x'.repeat(301) },
  'a channel __proto__': { type: 'subscribe', channel: '__proto__' },
  'a channel constructor': { type: 'publish', channel: 'constructor', data: 1 },
  'a channel with a line break': { type: 'subscribe', channel: 'a\nb' },
  'a channel with NUL': { type: 'subscribe', channel: 'a\0b' },
  'a channel with a lone surrogate': '{"type":"subscribe","channel":"\\ud800"}',
  'no data': { type: 'publish', channel: 'a' },
  'data with NUL': { type: 'publish', channel: 'a', data: ['\0'] },
  'data with half of a character': '{"type":"publish","channel":"a","data":"\\udc00"}',
  'data with __proto__': '{"type":"publish","channel":"a","data":{"__proto__":{"x":1}}}',
  'data too deep': `{"type":"publish","channel":"a","data":${deep(33)}}`,
  'data far too deep': `{"type":"publish","channel":"a","data":${deep(30_000)}}`,
  'a key twice, the second of another kind': '{"type":"ping","type":7}',
}

test('an invalid message is answered WS_BAD_MESSAGE, and the connection stays', async () => {
  const ada = await sockets.open({ token: 'ada' })
  for (const [name, message] of Object.entries(bad)) {
    const { type, code, message: text } = await ada.ask(message)
    assert.deepEqual([type, code], ['error', 'WS_BAD_MESSAGE'], name)
    assert.ok(text !== undefined && text.length < 500, name)
  }
  ada.socket.send(Buffer.from('{"type":"ping"}'), { binary: true })
  assert.equal((await ada.next()).code, 'WS_BAD_MESSAGE')
  await ada.subscribe('deep')
  ada.say(`{"type":"publish","channel":"deep","data":${deep(32)}}`)
  assert.equal((await ada.next()).type, 'message')
  assert.deepEqual(sockets.hub.report().refused.get('WS_BAD_MESSAGE'), Object.keys(bad).length + 1)
})

test('a connection has at most 50 subscriptions', async () => {
  const ada = await sockets.open({ token: 'ada' })
  for (let n = 1; n <= 50; n += 1) await ada.subscribe(`channel-${n}`)
  const { code, channel } = await ada.ask({ type: 'subscribe', channel: 'channel-51' })
  assert.deepEqual([code, channel], ['WS_TOO_MANY_SUBSCRIPTIONS', 'channel-51'])
  await ada.subscribe('channel-50')
  await ada.ask({ type: 'unsubscribe', channel: 'channel-1' })
  await ada.subscribe('channel-51')
})

test('a closed connection is forgotten', async () => {
  const [ada, bob] = await Promise.all([sockets.open({ token: 'ada' }), sockets.open({ token: 'bob' })])
  await bob!.subscribe('gone')
  await bob!.subscribe('recipient:bob')
  assert.deepEqual(sockets.hub.areConnected([{ tenant: 'acme', recipient: 'bob' }]), [true])
  bob!.socket.close()
  await bob!.closed
  await ada!.ask({ type: 'ping' })
  assert.deepEqual(sockets.hub.areConnected([{ tenant: 'acme', recipient: 'bob' }]), [false])
  assert.equal(sockets.hub.room('acme').subscribers('gone'), undefined)
})
