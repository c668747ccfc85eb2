import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { createFairRequestScheduler } from '../../src/http/fair-request-scheduler.ts'

/** Each request takes longer than one slice of the event loop. */
const workMs = 3

interface Served {
  readonly port: number
  /** The tenants of the requests, in the order in which they were begun. */
  readonly begun: string[]
}

async function serve(t: TestContext): Promise<Served> {
  const begun: string[] = []
  const handle: RequestListener = ({ url, headers }, response) => {
    if (url === '/first') {
      response.end()
      return
    }
    begun.push(headers['x-tenant-id'] as string)
    for (const until = performance.now() + workMs; performance.now() < until; );
    response.end()
  }
  const fairnessKeyOf = ({ headers }: Parameters<RequestListener>[0]): string =>
    headers['x-tenant-id'] as string
  const server = createServer(createFairRequestScheduler({ handle, fairnessKeyOf }))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, begun }
}

/**
 * Opens connections and waits until the server has accepted them, which it does one in each turn of the event
 * loop.
 */
async function open(t: TestContext, port: number, count: number): Promise<readonly Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1').resume())
  for (const socket of sockets) {
    socket.on('error', () => {})
    t.after(() => socket.destroy())
  }
  for (const socket of sockets) socket.write(get('anybody', '/first'))
  await Promise.all(sockets.map((socket) => once(socket, 'data')))
  return sockets
}

const get = (tenant: string, path = '/'): string =>
  `GET ${path} HTTP/1.1\r\nhost: localhost\r\nx-tenant-id: ${tenant}\r\n\r\n`

test('a request of one tenant does not wait for forty connections of another', async (t) => {
  const { port, begun } = await serve(t)
  const crowd = await open(t, port, 40)
  const [quiet] = await open(t, port, 1)
  for (const socket of crowd) socket.write(get('noisy'))
  quiet!.write(get('quiet'))
  await once(quiet!, 'data')
  // It may arrive one poll of the sockets later, and wait for one request of the crowd then.
  assert.ok(begun.indexOf('quiet') <= 8, begun.join(' '))
  while (begun.length < 41) await once(crowd.at(-1)!, 'data')
})

test('waiting tenants take turns, one request each', async (t) => {
  const { port, begun } = await serve(t)
  const sockets = await open(t, port, 30)
  for (const [index, socket] of sockets.entries()) socket.write(get('abc'[Math.floor(index / 10)]!))
  await Promise.all(sockets.map((socket) => once(socket, 'data')))
  // The part in which all three have requests waiting.
  const middle = begun.slice(12, 21)
  for (const tenant of 'abc') assert.ok(middle.filter((each) => each === tenant).length >= 2, begun.join(' '))
})

test('a request whose client disconnects before its turn is not begun', async (t) => {
  const { port, begun } = await serve(t)
  const crowd = await open(t, port, 30)
  const [gone] = await open(t, port, 1)
  for (const socket of crowd) socket.write(get('crowd'))
  gone!.write(get('crowd'))
  await once(crowd[0]!, 'data')
  gone!.destroy()
  await Promise.all(crowd.slice(1).map((socket) => once(socket, 'data')))
  assert.equal(begun.length, 30)
})
