import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { createPipelines, type PipelinesOptions } from '../../src/http/pipelines.ts'

interface Served {
  readonly port: number
  /** Paths of the requests, in the order in which they were begun. */
  readonly begun: string[]
  /** Answers the oldest request in progress. */
  answer(): void
  /** Resolves once that many requests have begun. */
  until(count: number): Promise<void>
}

async function serve(t: TestContext, bounds: Omit<PipelinesOptions, 'handle'> = {}): Promise<Served> {
  const begun: string[] = []
  const open: Parameters<RequestListener>[1][] = []
  let told: () => void = () => {}
  const handle: RequestListener = (request, response) => {
    begun.push(request.url!)
    open.push(response)
    told()
  }
  const server = createServer(createPipelines({ ...bounds, handle }))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    begun,
    answer: () => open.shift()!.end('done'),
    async until(count) {
      while (begun.length < count)
        await new Promise<void>((resolve) => {
          told = resolve
        })
    },
  }
}

interface Client {
  readonly socket: Socket
  text(): string
}

function open(t: TestContext, port: number): Client {
  let text = ''
  const socket = connect(port, '127.0.0.1')
    .setEncoding('latin1')
    .on('data', (chunk) => {
      text += chunk
    })
  socket.on('error', () => {})
  t.after(() => socket.destroy())
  return { socket, text: () => text }
}

const get = (path: string | number): string => `GET /${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`
const gets = (count: number): string => Array.from({ length: count }, (_, index) => get(index)).join('')
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
const answersIn = (text: string): number => text.split('HTTP/1.1 200').length - 1

test('pipelined requests of one connection are handled one at a time, in order, and all are answered', async (t) => {
  const served = await serve(t)
  const { socket, text } = open(t, served.port)
  socket.write(gets(5))
  for (let count = 1; count <= 5; count += 1) {
    await served.until(count)
    await turn()
    assert.equal(served.begun.length, count)
    served.answer()
  }
  while (answersIn(text()) < 5) await once(socket, 'data')
  assert.deepEqual(served.begun, ['/0', '/1', '/2', '/3', '/4'])
})

test('another connection does not wait for pipelined requests', async (t) => {
  const served = await serve(t)
  open(t, served.port).socket.write(gets(2))
  await served.until(1)
  open(t, served.port).socket.write(get('other'))
  await served.until(2)
  assert.deepEqual(served.begun, ['/0', '/other'])
})

test('a connection is not read while a request waits on it, and read again after that', async (t) => {
  const served = await serve(t)
  const { socket, text } = open(t, served.port)
  const padding = `x-padding: ${'x'.repeat(8_000)}\r\n`
  const total = 400
  const each = (index: number): string => get(index).replace('\r\n\r\n', `\r\n${padding}\r\n`)
  let written = 0
  socket.write(Array.from({ length: total }, (_, index) => each(index)).join(''), () => {
    written += 1
  })
  await served.until(1)
  for (let turns = 0; turns < 50; turns += 1) await turn()
  for (let count = 1; count <= total; count += 1) {
    await served.until(count)
    served.answer()
  }
  while (answersIn(text()) < total) await once(socket, 'data')
  assert.equal(served.begun.at(-1), `/${total - 1}`)
  assert.equal(written, 1)
})

test('requests beyond the bound are not handled: the last answer closes the connection', async (t) => {
  const served = await serve(t, { waitingMax: 3 })
  const { socket, text } = open(t, served.port)
  socket.write(gets(10))
  for (let count = 1; count <= 4; count += 1) {
    await served.until(count)
    served.answer()
  }
  await once(socket, 'close')
  assert.deepEqual(served.begun, ['/0', '/1', '/2', '/3'])
  const answers = text().split('HTTP/1.1 200').slice(1)
  assert.deepEqual(
    answers.map((each) => /connection: close/i.test(each)),
    [false, false, false, true],
  )
})

test('the bound of all connections together leaves each new one room, and is released', async (t) => {
  const served = await serve(t, { waitingMaxOfAll: 2 })
  const [first, second] = [open(t, served.port), open(t, served.port)]
  first.socket.write(gets(2))
  await served.until(1)
  second.socket.write(gets(5))
  await served.until(2)
  for (let count = 3; count <= 4; count += 1) {
    served.answer()
    await served.until(count)
  }
  served.answer()
  served.answer()
  await once(second.socket, 'close')
  assert.equal(answersIn(second.text()), 2)
  first.socket.write(gets(2))
  await served.until(5)
  served.answer()
  await served.until(6)
  served.answer()
  while (answersIn(first.text()) < 4) await once(first.socket, 'data')
})

test('pipelined requests of a disconnected client are dropped and their room is released', async (t) => {
  const served = await serve(t, { waitingMaxOfAll: 150 })
  const gone = open(t, served.port)
  gone.socket.write(gets(100))
  await served.until(1)
  gone.socket.resetAndDestroy()
  let answered = 0
  for (; answered < served.begun.length; answered += 1) {
    served.answer()
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  assert.ok(answered < 100, `${answered} were worked on`)
  const { socket, text } = open(t, served.port)
  socket.write(gets(100))
  for (let count = 1; count <= 100; count += 1) {
    await served.until(answered + count)
    served.answer()
  }
  while (answersIn(text()) < 100) await once(socket, 'data')
  assert.equal(/connection: close/i.test(text()), false)
})
