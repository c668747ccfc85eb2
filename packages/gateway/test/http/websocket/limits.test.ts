/** The limits of one client, one tenant and all of them, over real sockets, without effect on others. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { densest } from '../../harness.ts'
import { closed, handshake, openRaw, said, startSockets, until } from './client.ts'

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index)

/** Returns how long the longest run of sends took that lie less than 100 ms apart. */
function longestBatchMs(instants: readonly number[]): number {
  let longest = 0
  let first = instants[0]!
  for (const [index, at] of instants.entries()) {
    if (at - (instants[index - 1] ?? at) >= 100) first = at
    longest = Math.max(longest, at - first)
  }
  return longest
}

test('above 200 a second messages are throttled in order, with one warning a second', async () => {
  const sockets = await startSockets()
  const [publisher, reader] = await Promise.all([sockets.open(), sockets.open()])
  await reader!.subscribe('orders')
  // The instants at which the server sends: those at which a busy process reads lie closer to each other.
  const sentAt: number[] = []
  sockets.hub.subscribe('default', 'orders', { send: () => void sentAt.push(performance.now()) })
  const began = performance.now()
  for (const data of range(500)) publisher!.say({ type: 'publish', channel: 'orders', data })
  const heard = []
  for (const _ of range(500)) heard.push(await reader!.nextOf('message'))
  assert.deepEqual(
    heard.map(({ data }) => data),
    range(500),
  )
  assert.equal(sentAt.length, 500)
  // Messages that were let go together leave one after the other; the server counts 20 ms for that.
  const secondMs = 1_000 - Math.max(0, longestBatchMs(sentAt) - 20)
  assert.ok(densest(sentAt, secondMs) <= 200, `${densest(sentAt, secondMs)} in ${secondMs} ms`)
  const tookMs = heard.at(-1)!.at - began
  assert.ok(tookMs > 2_000, `${tookMs} ms`)
  const warnings = publisher!.heard.filter(({ type }) => type === 'warning')
  assert.ok(
    warnings.length >= 1 && warnings.length <= 1 + tookMs / 1_000,
    `${warnings.length} in ${tookMs} ms`,
  )
  assert.deepEqual(said(warnings[0]!), {
    type: 'warning',
    code: 'WS_RATE_LIMITED',
    message: 'Message throttled. Retry in 1s.',
  })
  assert.equal(publisher!.socket.readyState, 1)
  assert.deepEqual(sockets.hub.report().published, { sent: 200, throttled: 300, full: 0 })
})

test('the rate is the tenant’s, over all its connections, and no other tenant’s', async () => {
  const sockets = await startSockets({ rate: '10/min' })
  const [one, two, other] = await Promise.all([
    sockets.open({ tenant: 'acme' }),
    sockets.open({ tenant: 'acme' }),
    sockets.open({ tenant: 'globex' }),
  ])
  await other!.subscribe('orders')
  for (const data of range(10)) one!.say({ type: 'publish', channel: 'orders', data })
  await one!.ask({ type: 'ping' })
  assert.equal((await two!.ask({ type: 'publish', channel: 'orders', data: 11 })).code, 'WS_RATE_LIMITED')
  for (const data of range(10)) {
    assert.deepEqual(said(await other!.ask({ type: 'publish', channel: 'orders', data })), {
      type: 'message',
      channel: 'orders',
      data,
    })
  }
})

test('messages above the bound are refused with WS_BUFFER_FULL, and the waiting ones are all sent', async () => {
  const sockets = await startSockets({ rate: '10/s', waitingMax: 5 })
  const client = await sockets.open()
  await client.subscribe('orders')
  for (const data of range(20)) client.say({ type: 'publish', channel: 'orders', data })
  const messages = []
  while (messages.length < 15) {
    const heard = await client.next()
    if (heard.type === 'message') messages.push(heard.data)
  }
  assert.deepEqual(messages, range(15))
  const errors = client.heard.filter(({ type }) => type === 'error')
  assert.deepEqual(
    errors.map(({ code, channel }) => [code, channel]),
    range(5).map(() => ['WS_BUFFER_FULL', 'orders']),
  )
})

test('a message of 65,536 bytes is accepted, and one more byte closes the connection with 1009', async () => {
  const sockets = await startSockets()
  const client = await sockets.open()
  await client.subscribe('a')
  const publish = (bytes: number): string => {
    const empty = JSON.stringify({ type: 'publish', channel: 'a', data: '' })
    return JSON.stringify({ type: 'publish', channel: 'a', data: 'x'.repeat(bytes - empty.length) })
  }
  assert.equal(publish(65_536).length, 65_536)
  assert.equal((await client.ask(publish(65_536))).type, 'message')
  client.say(publish(65_537))
  assert.equal((await client.closed).code, 1009)
})

test('a frame of a megabyte, and a message of a thousand fragments, close the connection with 1009', async () => {
  const sockets = await startSockets()
  const [other, large, fragmented] = await Promise.all([sockets.open(), sockets.open(), sockets.open()])
  large!.say('x'.repeat(1_048_576))
  assert.equal((await large!.closed).code, 1009)
  for (const last of range(1_000).map((n) => n === 999))
    fragmented!.socket.send('x'.repeat(100), { fin: last })
  assert.equal((await fragmented!.closed).code, 1009)
  assert.deepEqual(said(await other!.ask({ type: 'ping' })), { type: 'pong' })
})

test('a message in fragments is one message', async () => {
  const sockets = await startSockets()
  const client = await sockets.open()
  const text = '{"type":"ping"}'
  for (const index of range(text.length)) client.socket.send(text[index]!, { fin: index === text.length - 1 })
  assert.deepEqual(said(await client.next()), { type: 'pong' })
})

test('endless empty fragments close the connection too', async () => {
  const sockets = await startSockets()
  const client = await sockets.open()
  for (const _ of range(20_000)) client.socket.send('', { fin: false })
  assert.ok([1008, 1006].includes((await client.closed).code))
})

test('a client that does not read is closed with 4408, and the others receive everything', async () => {
  const sockets = await startSockets({ rate: 'unlimited', framesPerSecond: 100_000, unreadMaxBytes: 65_536 })
  const [publisher, reader, deaf] = await Promise.all([sockets.open(), sockets.open(), sockets.open()])
  await reader!.subscribe('a')
  await deaf!.subscribe('a')
  deaf!.socket.pause()
  const data = 'x'.repeat(60_000)
  let published = 0
  // The kernel buffers some megabytes for the client that does not read before anything waits here.
  for (; sockets.hub.room('default').subscribers('a')?.size === 2 && published < 3_000; published += 1) {
    publisher!.say({ type: 'publish', channel: 'a', data })
    if (published % 20 === 0) await publisher!.ask({ type: 'ping' })
  }
  for (let n = 0; n < 10; n += 1, published += 1) publisher!.say({ type: 'publish', channel: 'a', data })
  for (let n = 0; n < published; n += 1) await reader!.nextOf('message')
  deaf!.socket.resume()
  assert.equal((await deaf!.closed).code, 4408)
  assert.ok(deaf!.heard.length < published)
  assert.deepEqual(said(await reader!.ask({ type: 'ping' })), { type: 'pong' })
})

test('a client that catches up with a burst is not closed', async () => {
  const sockets = await startSockets({
    rate: 'unlimited',
    framesPerSecond: 100_000,
    unreadMaxBytes: 1_048_576,
  })
  const client = await sockets.open()
  await client.subscribe('a')
  const data = 'x'.repeat(60_000)
  for (const _ of range(200)) sockets.hub.publish('default', 'a', data)
  for (const _ of range(200)) await client.nextOf('message')
  assert.deepEqual(said(await client.ask({ type: 'ping' })), { type: 'pong' })
})

test('a client that answers no ping is disconnected at the next, and one that does stays', async () => {
  // Both ends are in this process: where it gets no CPU for a heartbeat, the pong of a client that lives is unread.
  const heartbeatMs = 600
  const sockets = await startSockets({ heartbeatMs })
  const began = performance.now()
  const [alive, dead] = await Promise.all([sockets.open(), sockets.open({ client: { autoPong: false } })])
  assert.equal((await dead!.closed).code, 1006)
  const tookMs = performance.now() - began
  assert.ok(tookMs > heartbeatMs, `after ${tookMs} ms`)
  await new Promise((resolve) => setTimeout(resolve, 2 * heartbeatMs))
  assert.deepEqual(said(await alive!.ask({ type: 'ping' })), { type: 'pong' })
})

test('a protocol ping is answered', async () => {
  const sockets = await startSockets()
  const client = await sockets.open()
  client.socket.ping('hello')
  const [payload] = (await once(client.socket, 'pong')) as [Buffer]
  assert.equal(payload.toString(), 'hello')
})

test('a connection ends with 4401 when its token expires', async () => {
  const sockets = await startSockets({
    tokens: { short: { expiresAtMs: Date.now() + 2_000 }, long: { expiresAtMs: Date.now() + 3_600_000 } },
  })
  const [short, long] = await Promise.all([sockets.open({ token: 'short' }), sockets.open({ token: 'long' })])
  const { code } = await short!.closed
  assert.equal(code, 4401)
  assert.deepEqual(said(await long!.ask({ type: 'ping' })), { type: 'pong' })
})

test('a client that sends more than 1,000 messages a second is read no faster, loses nothing, and delays no other', async () => {
  const sockets = await startSockets({ framesPerSecond: 200 })
  const [flood, other] = await Promise.all([sockets.open(), sockets.open({ tenant: 'acme' })])
  const began = performance.now()
  for (const _ of range(600)) flood!.say({ type: 'ping' })
  const tookMs: number[] = []
  for (const _ of range(20)) {
    const asked = performance.now()
    await other!.ask({ type: 'ping' })
    tookMs.push(performance.now() - asked)
    if (tookMs.length === 1) assert.ok(flood!.heard.length < 600, 'it waits for no answer to the flood')
  }
  // The first chunk that was read is answered; the next is read when that is paid for.
  for (const _ of range(600)) assert.equal((await flood!.next(10_000)).type, 'pong')
  const next = flood!.ask({ type: 'ping' })
  assert.equal((await next).type, 'pong')
  assert.ok(performance.now() - began > 1_500, 'what was too much was paid for')
  // The median: one of them may meet a machine that is busy with others.
  const medianMs = tookMs.sort((a, b) => a - b)[10]!
  assert.ok(medianMs < 500, `${medianMs} ms`)
})

test('a frame that never ends is cut off by the heartbeat', async () => {
  const sockets = await startSockets({ heartbeatMs: 200 })
  const { socket, text } = await openRaw(sockets.stub.url, `${handshake}\r\n\r\n`)
  await until(() => text().startsWith('HTTP/1.1 101'))
  // The head of a masked text frame of 60,000 bytes, and then a byte now and then.
  socket.write(Buffer.from([0x81, 0xfe, 0xea, 0x60, 1, 2, 3, 4]))
  const dripping = setInterval(() => socket.write('x'), 50)
  await closed(socket)
  clearInterval(dripping)
})

test('the counts are in /metrics', async () => {
  const sockets = await startSockets({ rate: '1/min', waitingMax: 1 })
  const client = await sockets.open()
  await client.subscribe('a')
  for (const data of range(3)) client.say({ type: 'publish', channel: 'a', data })
  await client.nextOf('error')
  client.say('nonsense')
  await client.nextOf('error')
  const { text } = await sockets.stub.ask('GET', '/metrics')
  for (const line of [
    'sluice_websocket_connections 1',
    'sluice_websocket_waiting 1',
    'sluice_websocket_published_total{outcome="sent"} 1',
    'sluice_websocket_published_total{outcome="throttled"} 1',
    'sluice_websocket_published_total{outcome="full"} 1',
    'sluice_websocket_passed_on_total 1',
    'sluice_websocket_refused_total{code="WS_BAD_MESSAGE"} 1',
    'sluice_websocket_refused_total{code="WS_BUFFER_FULL"} 1',
  ])
    assert.ok(text.includes(line), line)
})
