/** Calls over HTTP/2 against servers that refuse streams, allow few, go away, fall silent and come back. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http2, { type ServerHttp2Session, type ServerHttp2Stream, type ServerOptions } from 'node:http2'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { it, type TestContext } from 'node:test'
import { setTimeout as after } from 'node:timers/promises'
import type { HttpAnswer, NoAnswer } from '../../../src/providers/transport/http-call.ts'
import {
  createHttp2Caller,
  type Http2Caller,
  type Http2CallerOptions,
} from '../../../src/providers/transport/http2-call.ts'
import { certificate, certificateKey } from '../../sinks/certificate.ts'

const { NGHTTP2_REFUSED_STREAM, NGHTTP2_ENHANCE_YOUR_CALM } = http2.constants

interface Other {
  readonly origin: string
  readonly caller: Http2Caller
  readonly sessions: readonly ServerHttp2Session[]
  /** Cuts every connection. */
  cut(): void
  /** From now on nothing passes on the connections that are open, and nobody is told. */
  silence(): void
  readonly streams: readonly ServerHttp2Stream[]
}

type Behaviour = (stream: ServerHttp2Stream, number: number) => void

const accept: Behaviour = (stream) => {
  stream.respond({ ':status': 200 })
  stream.end('yes')
}

async function open(
  t: TestContext,
  behave: Behaviour = accept,
  settings: ServerOptions['settings'] = {},
  options: Partial<Http2CallerOptions> = {},
): Promise<Other> {
  const server = http2.createServer({ settings })
  const sessions: ServerHttp2Session[] = []
  const streams: ServerHttp2Stream[] = []
  server.on('session', (session) => {
    sessions.push(session)
    session.on('error', () => {})
  })
  server.on('stream', (stream) => {
    stream.on('error', () => {})
    streams.push(stream)
    // A call counts when all of it has come.
    const number = streams.length
    stream.resume().on('end', () => behave(stream, number))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const line = await openLine((server.address() as AddressInfo).port)
  const origin = `http://127.0.0.1:${line.port}`
  const caller = createHttp2Caller({ origin, deadlineMs: 2_000, ...options })
  t.after(() => {
    caller.close()
    for (const session of sessions) session.destroy()
    server.close()
    line.close()
  })
  return { origin, caller, sessions, streams, cut: line.cut, silence: line.silence }
}

/** A line to the server that can be cut, and that can go dead. */
async function openLine(to: number) {
  const near = new Set<Socket>()
  const silent = new WeakSet<Socket>()
  const line = createServer((here) => {
    const there = connect(to, '127.0.0.1')
    near.add(here)
    for (const [from, onto] of [
      [here, there],
      [there, here],
    ] as const) {
      from.on('data', (bytes) => silent.has(here) || onto.write(bytes))
      from.on('error', () => {})
      from.on('close', () => onto.destroy())
    }
  })
  line.listen(0, '127.0.0.1')
  await once(line, 'listening')
  return {
    port: (line.address() as AddressInfo).port,
    cut() {
      for (const socket of near) socket.resetAndDestroy()
    },
    silence() {
      for (const socket of near) silent.add(socket)
    },
    close() {
      for (const socket of near) socket.destroy()
      line.close()
    },
  }
}

function call(
  { caller, origin }: Pick<Other, 'caller' | 'origin'>,
  signal = AbortSignal.timeout(5_000),
  onWritten?: () => boolean,
): Promise<HttpAnswer | NoAnswer> {
  return caller.call({ url: new URL('/x?y=1', origin), headers: { a: 'b' }, body: '{}', signal, onWritten })
}

const statusOf = (answer: HttpAnswer | NoAnswer): number | string =>
  answer.answered ? answer.status : answer.sent ? 'sent' : 'not sent'

it('sends path, query, headers and body', async (t) => {
  const other = await open(t, (stream) => {
    stream.respond({ ':status': 201, 'x-id': '7' })
    stream.end('äöü')
  })
  const answer = await call(other)
  assert.ok(answer.answered)
  assert.deepEqual([answer.status, answer.headers['x-id'], answer.text], [201, '7', 'äöü'])
  const [stream] = other.streams
  assert.equal(stream!.sentHeaders?.[':status'], 201)
})

it('retries a call that the server refused to process', async (t) => {
  const other = await open(t, (stream, number) =>
    number === 1 ? stream.close(NGHTTP2_REFUSED_STREAM) : accept(stream, number),
  )
  let left = 0
  assert.equal(statusOf(await call(other, undefined, () => ++left > 0)), 200)
  assert.equal(other.streams.length, 2)
  assert.equal(left, 2)
})

it('gives up a call that is refused again and again, as not carried out', async (t) => {
  const other = await open(t, (stream) => stream.close(NGHTTP2_REFUSED_STREAM))
  assert.equal(statusOf(await call(other)), 'not sent')
  assert.equal(other.streams.length, 3)
})

it('retries a call that a GOAWAY names as unprocessed, and not one that may have been processed', async (t) => {
  let looked: ServerHttp2Stream | undefined
  const other = await open(t, (stream, number) => {
    if (number === 1) looked = stream
    else if (number === 2) {
      // The first was looked at, the second was not; the connection ends with both unanswered.
      stream.session?.goaway(NGHTTP2_ENHANCE_YOUR_CALM, looked!.id)
    } else accept(stream, number)
  })
  const [first, second] = await Promise.all([call(other), call(other)])
  assert.equal(statusOf(first), 'sent')
  assert.match(String((first as NoAnswer).error?.message), /GOAWAY 11/)
  assert.equal(statusOf(second), 200)
  assert.equal(other.sessions.length, 2)
})

it('opens another session after a GOAWAY, while calls under way on the first are answered', async (t) => {
  const held: ServerHttp2Stream[] = []
  const other = await open(t, (stream, number) => {
    if (number > 1) return accept(stream, number)
    held.push(stream)
    stream.session?.goaway(0, stream.id, Buffer.from('{"reason":"Shutdown"}'))
  })
  const first = call(other)
  while (held.length === 0) await after(5)
  await after(20)
  assert.equal(statusOf(await call(other)), 200)
  accept(held[0]!, 1)
  assert.equal(statusOf(await first), 200)
  assert.equal(other.sessions.length, 2)
})

it('keeps each session within the server’s limit of streams, and opens others', async (t) => {
  let most = 0
  const underWay = new Map<unknown, number>()
  const other = await open(
    t,
    (stream, number) => {
      const { session } = stream
      underWay.set(session, (underWay.get(session) ?? 0) + 1)
      most = Math.max(most, underWay.get(session)!)
      setTimeout(() => {
        underWay.set(session, underWay.get(session)! - 1)
        accept(stream, number)
      }, 20)
    },
    { maxConcurrentStreams: 3 },
    { sessionsMax: 4 },
  )
  const answers = await Promise.all(Array.from({ length: 60 }, () => call(other)))
  assert.deepEqual(new Set(answers.map(statusOf)), new Set([200]))
  assert.equal(most, 3)
  assert.equal(other.sessions.length, 4)
})

it('adapts the number of sessions to the concurrency', async (t) => {
  const other = await open(t, (stream, number) => setTimeout(accept, 30, stream, number), undefined, {
    streamsMax: 10,
  })
  const crowd = (size: number) => Promise.all(Array.from({ length: size }, () => call(other)))
  await crowd(50)
  assert.equal(other.caller.sessions(), 5)
  other.caller.resize(15)
  assert.equal(other.caller.sessions(), 2)
  const answers = await crowd(50)
  assert.deepEqual(new Set(answers.map(statusOf)), new Set([200]))
  assert.equal(other.caller.sessions(), 2)
  other.caller.resize(40)
  await crowd(50)
  assert.equal(other.caller.sessions(), 4)
})

it('interrupts no call when sessions become fewer', async (t) => {
  const other = await open(t, (stream, number) => setTimeout(accept, 60, stream, number), undefined, {
    streamsMax: 5,
  })
  const answers = Array.from({ length: 20 }, () => call(other))
  while (other.streams.length < 20) await after(2)
  other.caller.resize(1)
  assert.deepEqual(new Set((await Promise.all(answers)).map(statusOf)), new Set([200]))
})

it('distinguishes a call that was cut off from one that never left', async (t) => {
  const other: Other = await open(t, () => other.cut())
  assert.equal(statusOf(await call(other)), 'sent')
  const caller = createHttp2Caller({ origin: 'http://127.0.0.1:1', deadlineMs: 1_000 })
  t.after(() => caller.close())
  const nobody = await call({ caller, origin: 'http://127.0.0.1:1' })
  assert.equal(statusOf(nobody), 'not sent')
  assert.match(String((nobody as NoAnswer).error?.message), /ECONNREFUSED/)
})

it('abandons a silent session, and carries the next call on another', async (t) => {
  const other = await open(
    t,
    (stream, number) => (number === 1 ? undefined : accept(stream, number)),
    undefined,
    {
      pongMs: 100,
      deadlineMs: 3_000,
    },
  )
  const first = call(other, AbortSignal.timeout(1_000))
  while (other.streams.length === 0) await after(5)
  other.silence()
  assert.equal(statusOf(await first), 'sent')
  assert.equal(statusOf(await call(other)), 200)
  assert.equal(other.sessions.length, 2)
})

it('keeps a session on which one call alone was late', async (t) => {
  const other = await open(t, (stream, number) => (number === 1 ? undefined : accept(stream, number)))
  // Long enough for a busy machine to connect: the call is late, and not the connection.
  const late = await call(other, AbortSignal.timeout(1_000))
  assert.equal(!late.answered && late.late, true)
  assert.equal(statusOf(await call(other)), 200)
  assert.equal(other.sessions.length, 1)
})

it('detects a dead idle connection by pings', async (t) => {
  // Both ends are in this process: a pong is late where it gets no CPU for so long.
  const other = await open(t, accept, undefined, { pingMs: 50, pongMs: 1_000 })
  await call(other)
  await after(200)
  assert.equal(other.caller.sessions(), 1)
  other.silence()
  for (let tries = 0; other.caller.sessions() > 0 && tries < 1_000; tries += 1) await after(10)
  assert.equal(other.caller.sessions(), 0)
})

it('bounds the number of waiting calls', async (t) => {
  const other = await open(t, () => {}, undefined, { streamsMax: 1, sessionsMax: 1, waitingMax: 2 })
  const first = call(other, AbortSignal.timeout(1_500))
  while (other.streams.length === 0) await after(5)
  const waiting = [call(other, AbortSignal.timeout(100)), call(other, AbortSignal.timeout(100))]
  const refused = await call(other)
  assert.match(String((refused as NoAnswer).error?.message), /too many/)
  assert.deepEqual((await Promise.all([first, ...waiting])).map(statusOf), ['sent', 'not sent', 'not sent'])
})

it('reads an answer up to the limit, and judges by its status', async (t) => {
  const other = await open(
    t,
    (stream) => {
      stream.respond({ ':status': 400 })
      stream.end('x'.repeat(200_000))
    },
    undefined,
    { answerBytesMax: 1_000 },
  )
  const answer = await call(other)
  assert.ok(answer.answered && answer.status === 400 && answer.text.length <= 1_000)
})

it('uses TLS, and refuses a server with an untrusted certificate', async (t) => {
  const server = http2.createSecureServer({ cert: certificate, key: certificateKey })
  server.on('stream', (stream) => accept(stream, 1))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `https://localhost:${(server.address() as AddressInfo).port}`
  const knowing = createHttp2Caller({ origin, deadlineMs: 2_000, tls: { ca: certificate } })
  const strict = createHttp2Caller({ origin, deadlineMs: 2_000 })
  t.after(() => {
    knowing.close()
    strict.close()
    server.close()
  })
  assert.equal(statusOf(await call({ caller: knowing, origin })), 200)
  const refused = await call({ caller: strict, origin })
  assert.equal(statusOf(refused), 'not sent')
  assert.match(String((refused as NoAnswer).error?.message), /certificate/i)
})
