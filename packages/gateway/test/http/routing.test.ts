import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { message, type Stub, startStub } from './stub.ts'

/** A gate that blocks until it is opened. */
async function startClosed(): Promise<{ readonly stub: Stub; readonly begun: () => number; open(): void }> {
  const stub = await startStub()
  const gate = Promise.withResolvers<void>()
  let begun = 0
  stub.before = () => {
    begun += 1
    return gate.promise
  }
  return { stub, begun: () => begun, open: gate.resolve }
}

const post = (stub: Stub, tenant: string) =>
  stub.ask('POST', '/notifications', message, { 'x-tenant-id': tenant })

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 5))
}

test('16 requests of a tenant run at once; only its own further requests wait', async () => {
  const { stub, begun, open } = await startClosed()
  await stub.ask('GET', '/notifications', undefined, { 'x-tenant-id': 'quiet' })
  const noisy = Array.from({ length: 40 }, () => post(stub, 'noisy'))
  await until(() => begun() === 16)
  const quiet = post(stub, 'quiet')
  await until(() => begun() === 17)
  assert.equal((await stub.ask('GET', '/notifications', undefined, { 'x-tenant-id': 'other' })).status, 200)
  assert.equal((await stub.ask('GET', '/healthz')).status, 200)
  const events = await fetch(`${stub.url}/api/v1/events`, { headers: { 'x-tenant-id': 'noisy' } })
  assert.equal(events.status, 200)
  await events.body!.cancel()
  assert.equal(begun(), 17)
  open()
  for (const { status } of await Promise.all([...noisy, quiet])) assert.equal(status, 202)
})

test('64 requests of a lone tenant run at once', async () => {
  const { stub, begun, open } = await startClosed()
  const posted = Array.from({ length: 80 }, () => post(stub, 'only'))
  await until(() => begun() === 64)
  assert.equal((await stub.ask('GET', '/healthz')).status, 200)
  assert.equal(begun(), 64)
  open()
  for (const { status } of await Promise.all(posted)) assert.equal(status, 202)
})

test('a request that waits for its bulkhead is not handled after its client has disconnected', async () => {
  const { stub, begun, open } = await startClosed()
  const aborted = new AbortController()
  const posted = Array.from({ length: 64 }, () => post(stub, 'only'))
  await until(() => begun() === 64)
  const gone = fetch(`${stub.url}/api/v1/notifications`, {
    method: 'POST',
    body: JSON.stringify(message),
    headers: { 'content-type': 'application/json', 'x-tenant-id': 'only' },
    signal: aborted.signal,
  })
  // Sent after it on another connection, so that it has arrived when this one is answered.
  await stub.ask('GET', '/healthz')
  await new Promise((resolve) => setTimeout(resolve, 100))
  aborted.abort()
  await assert.rejects(gone, { name: 'AbortError' })
  await new Promise((resolve) => setTimeout(resolve, 100))
  open()
  await Promise.all(posted)
  assert.equal((await post(stub, 'only')).status, 202)
  assert.equal(begun(), 65)
})

const body = JSON.stringify(message)
const postText = `POST /api/v1/notifications HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`

test('a graceful shutdown also answers pipelined requests', async () => {
  const { stub, begun, open } = await startClosed()
  const socket = connect(Number(new URL(stub.url).port), '127.0.0.1').setEncoding('latin1')
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.write(postText.repeat(5))
  await until(() => begun() === 1)
  const closed = stub.close()
  await new Promise((resolve) => setTimeout(resolve, 120))
  open()
  await Promise.all([closed, once(socket, 'close')])
  assert.equal(begun(), 5)
  assert.equal(text.split('HTTP/1.1 202').length - 1, 5)
})

test('an upgrade behind a request in progress affects no other connection', async () => {
  const { stub, begun, open } = await startClosed()
  const socket = connect(Number(new URL(stub.url).port), '127.0.0.1').resume()
  socket.on('error', () => {})
  const upgrade =
    'GET /ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
  socket.write(postText.repeat(2) + upgrade)
  await until(() => begun() === 1)
  open()
  await new Promise((resolve) => setTimeout(resolve, 50))
  socket.destroy()
  assert.equal((await post(stub, 'other')).status, 202)
})
