/**
 * Clients that are slow, silent, greedy or deaf, over raw sockets against a whole gateway: each is closed on its
 * deadline, what it can make the gateway hold is bounded, and somebody who behaves is answered meanwhile.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { stringify } from 'yaml'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway } from '../../src/gateway.ts'
import { temporaryFolder } from '../config/folder.ts'
import { startStub } from '../http/stub.ts'

/** Beyond the deadline itself: a check each second, and a machine with others on it. */
const slackMs = 20_000
const requestTimeoutMs = 1_000

async function start(t: TestContext, http: object = {}): Promise<number> {
  const cwd = temporaryFolder(t)
  const yaml = {
    http: { port: 0, requestTimeout: requestTimeoutMs, ...http },
    store: 'sqlite::memory:',
    tenants: { default: { rate: 'unlimited', modules: 'unlimited' } },
    log: { level: 'silent' },
  }
  writeFileSync(join(cwd, 'sluice.yaml'), stringify(yaml))
  const gateway = await createGateway(loadConfig({ cwd, env: {} }))
  const { url } = await gateway.start()
  t.after(() => gateway.stop())
  return Number(new URL(url).port)
}

interface Client {
  readonly socket: Socket
  readonly closed: Promise<number>
}

/** `closed` gives how long it lived, ms. */
async function open(t: TestContext, port: number): Promise<Client> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.resume()
  const since = performance.now()
  const closed = new Promise<number>((resolve) => {
    socket.on('close', () => resolve(performance.now() - since))
  })
  t.after(() => socket.destroy())
  await Promise.race([new Promise((resolve) => socket.on('connect', resolve)), closed])
  return { socket, closed }
}

const openMany = (t: TestContext, port: number, count: number): Promise<readonly Client[]> =>
  Promise.all(Array.from({ length: count }, () => open(t, port)))

/** Writes the next piece over and over, for as long as it can. */
function trickle(t: TestContext, clients: readonly Client[], head: string, piece: string): void {
  for (const { socket } of clients) socket.write(head)
  const timer = setInterval(() => {
    for (const { socket } of clients) if (socket.writable) socket.write(piece)
  }, 200)
  t.after(() => clearInterval(timer))
}

const message = JSON.stringify({
  recipient: { id: 'ada', email: 'ada@example.com' },
  channel: 'email',
  content: { subject: 'Hello', text: 'World' },
})
const head = 'POST /api/v1/notifications HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'

/** Somebody who behaves: one request after the other on a connection of his own. */
function polite(t: TestContext, port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const post = (): Promise<number> =>
    new Promise((resolve, reject) => {
      const outgoing = request(
        {
          port,
          host: '127.0.0.1',
          agent,
          method: 'POST',
          path: '/api/v1/notifications',
          headers: { 'content-type': 'application/json' },
        },
        (answer) => {
          answer.resume().on('end', () => resolve(answer.statusCode ?? 0))
        },
      )
      outgoing.on('error', reject)
      outgoing.end(message)
    })
  return {
    /** The latencies of so many requests, ms, sorted. */
    async run(count: number, onAnswer?: () => void): Promise<readonly number[]> {
      const tookMs: number[] = []
      for (let index = 0; index < count; index += 1) {
        const since = performance.now()
        assert.equal(await post(), 202)
        tookMs.push(performance.now() - since)
        onAnswer?.()
      }
      return tookMs.sort((a, b) => a - b)
    },
  }
}

const shown = (sorted: readonly number[]): string =>
  `p50 ${sorted[Math.floor(sorted.length / 2)]!.toFixed(1)} ms, worst ${sorted.at(-1)!.toFixed(1)} ms`

test('600 clients that trickle headers, bodies or nothing are closed on the deadline, and others are answered', async (t) => {
  const port = await start(t)
  const other = polite(t, port)
  await other.run(20)
  const alone = await other.run(100)
  const [headers, bodies, silent] = await Promise.all([
    openMany(t, port, 200),
    openMany(t, port, 200),
    openMany(t, port, 200),
  ])
  trickle(t, headers!, 'POST /api/v1/notifications HTTP/1.1\r\nhost: localhost\r\n', 'x-a: b\r\n')
  trickle(t, bodies!, `${head}content-length: 100000\r\n\r\n`, ' ')
  const among = await other.run(100)
  const lived = await Promise.all([...headers!, ...bodies!, ...silent!].map(({ closed }) => closed))
  assert.ok(Math.max(...lived) < requestTimeoutMs + slackMs, `${Math.max(...lived)} ms`)
  assert.ok(among.at(-1)! < slackMs, 'nobody else waits for them')
  t.diagnostic(
    `longest lived ${Math.max(...lived).toFixed(0)} ms; another client alone: ${shown(alone)}; meanwhile: ${shown(among)}`,
  )
})

test('connections over the maximum are dropped; open ones are served, and room comes back', async (t) => {
  // Longer than a busy machine takes to open 200: what is closed on the deadline is counted as dropped.
  const port = await start(t, { connectionsMax: 50, requestTimeout: '5s' })
  const other = polite(t, port)
  await other.run(1)
  const idle = await openMany(t, port, 200)
  const stillOpen = (): number => idle.filter(({ socket }) => !socket.destroyed).length
  // A busy machine takes its time to tell all of them; the idle ones that may stay are open for as long as the test is.
  for (let tries = 0; stillOpen() > 50 && tries < 300; tries += 1)
    await new Promise((resolve) => setTimeout(resolve, 10))
  const alive = stillOpen()
  assert.ok(alive <= 50, `${alive} of 200 are open`)
  assert.ok(alive >= 40)
  for (const { closed } of idle) await closed
  await other.run(1)
  const after = await open(t, port)
  after.socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n')
  const [answer] = (await once(after.socket, 'data')) as [Buffer]
  assert.match(answer.toString(), /^HTTP\/1.1 200 /)
})

test('connections between two requests make room for new ones', async (t) => {
  const port = await start(t, { connectionsMax: 10 })
  const resting = await openMany(t, port, 10)
  for (const { socket } of resting) {
    socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n')
    await once(socket, 'data')
  }
  const dropped = await open(t, port)
  await dropped.closed
  for (const { closed } of resting) await closed
  await polite(t, port).run(3)
})

test('a client that pipelines endlessly and never reads is throttled and disconnected', async (t) => {
  const stub = await startStub({ standstillMs: 1_000 })
  const port = Number(new URL(stub.url).port)
  const { socket, closed } = await open(t, port)
  socket.pause()
  const one = `${head}content-length: ${message.length}\r\n\r\n${message}`
  const many = one.repeat(200)
  let taken = 0
  let standingMs = 0
  while (!socket.destroyed && standingMs < 10_000 && taken < 100_000_000) {
    if (socket.writableLength < many.length) {
      socket.write(many)
      taken += many.length
    }
    const before = socket.writableLength
    await new Promise((resolve) => setTimeout(resolve, 2))
    standingMs = socket.writableLength === before ? standingMs + 2 : 0
  }
  // The kernel's buffers of both directions are included.
  assert.ok(taken < 50_000_000, `${taken} bytes were taken`)
  // Nothing tells a client that does not read that it was cut off; writing on does.
  assert.ok((await closed) < 30_000)
  assert.equal((await stub.ask('GET', '/pools')).status, 200)
  t.diagnostic(`${(taken / 1e6).toFixed(1)} MB taken, ${stub.drafts.length} requests of it worked on`)
})

interface Flood {
  readonly connections: number
  /** Requests of a connection that are on their way before the first of them is answered. */
  readonly depth: number
  readonly request: string
}

/** Asks again as soon as a connection is answered, until it is ended; then resolves with all statuses. */
async function startFlood(t: TestContext, port: number, { connections, depth, request }: Flood) {
  const clients = await openMany(t, port, connections)
  const statuses = new Map<string, number>()
  const all = Promise.withResolvers<void>()
  let open = 0
  let ended = false
  function ask(socket: Socket): void {
    open += depth
    socket.write(request.repeat(depth))
  }
  for (const { socket } of clients) {
    let missing = depth
    let text = ''
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString('latin1')
      const found = [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)]
      // The text after the last status may be half of another one.
      text = text.slice(-16).replaceAll(/HTTP\/1\.1 \d{3} /g, '')
      for (const [, status] of found) statuses.set(status!, (statuses.get(status!) ?? 0) + 1)
      open -= found.length
      missing -= found.length
      if (missing === 0 && !ended) {
        missing = depth
        ask(socket)
      }
      if (open === 0) all.resolve()
    })
    ask(socket)
  }
  return {
    answered: () => [...statuses.values()].reduce((a, b) => a + b, 0),
    async end(): Promise<ReadonlyMap<string, number>> {
      ended = true
      await all.promise
      for (const { socket } of clients) socket.destroy()
      return statuses
    },
  }
}

const medianOf = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!

/**
 * The effect of a flood on another client: its latency, and the number of flood requests answered during one of its
 * own, which depends on no machine. Of both the least of three tries, each with its latency alone and beside a small
 * flood.
 */
async function feel(t: TestContext, flood: Flood, status: string) {
  const port = await start(t)
  const other = polite(t, port)
  await other.run(50)
  const beside = async (it: Flood) => {
    const flooding = await startFlood(t, port, it)
    const meanwhile: number[] = []
    const tookMs = await other.run(40, () => meanwhile.push(flooding.answered()))
    const statuses = await flooding.end()
    assert.deepEqual([...statuses.keys()], [status])
    return {
      tookMs,
      meanwhile: medianOf(meanwhile.slice(1).map((count, index) => count - meanwhile[index]!)),
    }
  }
  const felt = { ratio: Number.POSITIVE_INFINITY, meanwhile: Number.POSITIVE_INFINITY }
  for (let tries = 0; tries < 3; tries += 1) {
    const alone = await other.run(40)
    const small = await beside({ ...flood, connections: 10, depth: 1 })
    const large = await beside(flood)
    felt.ratio = Math.min(felt.ratio, medianOf(large.tookMs) / medianOf(small.tookMs))
    felt.meanwhile = Math.min(felt.meanwhile, large.meanwhile)
    t.diagnostic(
      `alone: ${shown(alone)}; beside 10 requests under way: ${shown(small.tookMs)}, ${small.meanwhile} answered meanwhile; beside ${flood.connections} × ${flood.depth}: ${shown(large.tookMs)}, ${large.meanwhile} answered meanwhile`,
    )
  }
  return felt
}

const noisy = 'x-tenant-id: noisy\r\n'

test('400 requests behind one another on 20 connections move nobody else far, and all are answered', async (t) => {
  const request = `GET /api/v1/notifications/none HTTP/1.1\r\nhost: localhost\r\n${noisy}\r\n`
  const felt = await feel(t, { connections: 20, depth: 20, request }, '404')
  assert.ok(felt.meanwhile < 80, `${felt.meanwhile} of the flood are answered meanwhile`)
  assert.ok(felt.ratio < 6, `${felt.ratio.toFixed(1)} times as long as beside 10 requests`)
})

test('one request on each of 400 connections moves another tenant little, and all are answered', async (t) => {
  const request = `${head}${noisy}content-length: ${message.length}\r\n\r\n${message}`
  const felt = await feel(t, { connections: 400, depth: 1, request }, '202')
  assert.ok(felt.meanwhile < 80, `${felt.meanwhile} of the flood are answered meanwhile`)
  assert.ok(felt.ratio < 6, `${felt.ratio.toFixed(1)} times as long as beside 10 requests`)
})

test('headers without end are refused when they are too large, long before the deadline', async (t) => {
  const port = await start(t, { requestTimeout: '60s' })
  for (const piece of ['x'.repeat(1_000), 'x-a: b\r\n', 'GET ']) {
    const { socket, closed } = await open(t, port)
    socket.write('GET /healthz HTTP/1.1\r\n')
    let sent = 0
    const timer = setInterval(() => {
      for (let count = 0; count < 20 && socket.writable; count += 1) {
        socket.write(piece)
        sent += piece.length
      }
    }, 5)
    t.after(() => clearInterval(timer))
    await closed
    clearInterval(timer)
    assert.ok(sent < 2_000_000, `${sent} bytes of ${JSON.stringify(piece.slice(0, 8))}`)
  }
})
