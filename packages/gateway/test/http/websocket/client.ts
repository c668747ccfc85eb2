/**
 * WebSockets as clients use them: a server on a real socket, and connections that keep every received message
 * and return the next one. Each message is checked against the published AsyncAPI document.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectTcp, type Socket } from 'node:net'
import { after } from 'node:test'
import { parseWindows } from '@sluice/limits'
import { Ajv } from 'ajv'
import { type ClientOptions, WebSocket } from 'ws'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { createMemoryRoom } from '../../../src/adapters/state/memory-room.ts'
import { SluiceError } from '../../../src/errors.ts'
import type { Identity } from '../../../src/http/identity.ts'
import { asyncApiDocument } from '../../../src/http/websocket/asyncapi.ts'
import { createWebSocketHub, type WebSocketHub } from '../../../src/http/websocket/hub.ts'
import type { WebSocketBounds } from '../../../src/http/websocket/upgrade.ts'
import { type Stub, type StubOptions, startStub } from '../stub.ts'

const webSocketConfig: WebSocketBounds = {
  messageMaxBytes: 65_536,
  subscriptionsMax: 50,
  framesPerSecond: 1_000,
  waitingMax: 1_000,
  unreadMaxBytes: 1_048_576,
  heartbeatMs: 30_000,
  connectionsMax: 10_000,
}

export interface SocketsOptions extends Partial<WebSocketBounds> {
  /** @defaultValue 200/s */
  readonly rate?: string
  /** Connections of one tenant at most. @defaultValue 1_000 */
  readonly connections?: number
  /** Tokens and their identities. Absent: no keys. */
  readonly tokens?: Readonly<Record<string, Partial<Identity>>>
  readonly http?: StubOptions
}

export interface Sockets {
  readonly url: string
  readonly hub: WebSocketHub
  readonly stub: Stub
  /** Opens a connection and resolves when it is open. */
  open(options?: OpenOptions): Promise<Client>
  /** Resolves with the answer to an upgrade that is refused over HTTP. */
  refused(options?: OpenOptions): Promise<Refusal>
}

interface OpenOptions {
  /** The token for the header Authorization. */
  readonly token?: string
  readonly protocols?: readonly string[]
  readonly tenant?: string
  readonly path?: string
  readonly client?: ClientOptions
}

interface Refusal {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: { readonly code: string; readonly detail: string; readonly status: number }
}

export interface Heard {
  readonly type: string
  readonly channel?: string
  readonly data?: unknown
  readonly code?: string
  readonly message?: string
  /** The instant of arrival, ms of the monotonic clock. */
  readonly at: number
}

const document = asyncApiDocument('test') as {
  readonly components: { readonly schemas: Readonly<Record<string, object>> }
}
const ajv = new Ajv({ strict: false })
const checks = new Map(
  Object.entries(document.components.schemas).map(([name, schema]) => [name, ajv.compile(schema)]),
)

/** How long something that comes is waited for on a busy machine, ms. */
const patienceMs = 30_000

export class Client {
  readonly socket: WebSocket
  readonly heard: Heard[] = []
  /** The number of messages that `next` has returned. */
  #taken = 0
  #wake: (() => void) | undefined
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (bytes: Buffer) => {
      const message = JSON.parse(bytes.toString()) as Heard
      const check = checks.get(message.type)
      assert.ok(check?.(message), `${bytes} is not in the document`)
      this.heard.push({ ...message, at: performance.now() })
      this.#wake?.()
    })
    socket.on('error', () => {})
    this.closed = new Promise((resolve) =>
      socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() })),
    )
  }

  say(message: object | string): void {
    this.socket.send(typeof message === 'string' ? message : JSON.stringify(message))
  }

  /** Returns the next message that was not returned yet. */
  async next(withinMs = patienceMs): Promise<Heard> {
    const end = performance.now() + withinMs
    while (this.heard.length === this.#taken) {
      const left = end - performance.now()
      assert.ok(left > 0, `nothing was heard within ${withinMs} ms`)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#taken += 1
    return this.heard[this.#taken - 1]!
  }

  async ask(message: object | string): Promise<Heard> {
    this.say(message)
    return this.next()
  }

  /** Returns the next message of a type. */
  async nextOf(type: string, withinMs?: number): Promise<Heard> {
    for (;;) {
      const heard = await this.next(withinMs)
      if (heard.type === type) return heard
    }
  }

  async subscribe(channel: string): Promise<void> {
    assert.equal((await this.ask({ type: 'subscribe', channel })).type, 'subscribed')
  }
}

/** Returns a message without its instant. */
export function said({ at: _, ...message }: Heard): object {
  return message
}

export async function startSockets(options: SocketsOptions = {}): Promise<Sockets> {
  const { rate = '200/s', connections = 1_000, tokens, http, ...config } = options
  const clock = createSystemClock()
  const hub = createWebSocketHub({
    clock,
    marginMs: 20,
    waitingMax: config.waitingMax ?? webSocketConfig.waitingMax,
    windowsOf: () => (rate === 'unlimited' ? [] : parseWindows(rate)),
  })
  const { parts, ...more } = http ?? {}
  const stub = await startStub({
    ...more,
    parts: {
      clock,
      webSocket: {
        config: { ...webSocketConfig, ...config },
        hub,
        connectionsMaxOf: () => connections,
        connectionCounts: createMemoryRoom(),
      },
      ...(tokens === undefined ? {} : { authenticate: authenticateBy(tokens) }),
      ...parts,
    },
  })
  const url = stub.url.replace('http', 'ws')
  const opened = new Set<WebSocket>()
  // Before the server, which would wait for them.
  after(() => {
    for (const socket of opened) socket.terminate()
  })

  function dial({ token, protocols = [], tenant, path = '/ws', client = {} }: OpenOptions = {}): WebSocket {
    const socket = new WebSocket(url + path, [...protocols], {
      ...client,
      perMessageDeflate: client.perMessageDeflate ?? false,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(tenant === undefined ? {} : { 'x-tenant-id': tenant }),
        ...client.headers,
      },
    })
    opened.add(socket)
    socket.once('close', () => opened.delete(socket))
    return socket
  }

  return {
    url,
    hub,
    stub,
    async open(how) {
      const socket = dial(how)
      const client = new Client(socket)
      await new Promise<void>((resolve, reject) => {
        socket.once('open', resolve)
        socket.once('error', reject)
      })
      return client
    },
    refused(how) {
      const socket = dial(how)
      return new Promise((resolve, reject) => {
        socket.once('open', () => reject(new Error('it was opened')))
        socket.on('error', reject)
        socket.once('unexpected-response', (_request, response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('end', () => {
            const { statusCode: status = 0, headers } = response
            resolve({ status, headers, body: JSON.parse(Buffer.concat(chunks).toString() || '{}') })
          })
        })
      })
    },
  }
}

function authenticateBy(tokens: NonNullable<SocketsOptions['tokens']>) {
  return ({ headers }: { readonly headers: { readonly authorization?: string | undefined } }): Identity => {
    const token = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1]
    const known = token === undefined ? undefined : tokens[token]
    if (known === undefined) throw new SluiceError('UNAUTHENTICATED', 'There is no valid token.')
    return { tenant: 'acme', module: 'shop', scopes: new Set(), ...known }
  }
}

/** A connection without a library: bytes out, bytes in. */
export async function openRaw(url: string, bytes: string): Promise<{ socket: Socket; text: () => string }> {
  const { hostname, port } = new URL(url)
  const socket = connectTcp(Number(port), hostname)
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(bytes)
  after(() => socket.destroy())
  return { socket, text: () => Buffer.concat(chunks).toString('latin1') }
}

/** Waits until a bare socket is closed; bytes that come behind its end are answered with a reset, which is no fault. */
export const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => socket.once('close', () => resolve()))

export const handshake = [
  'GET /ws HTTP/1.1',
  'Host: localhost',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
].join('\r\n')

export async function until(condition: () => boolean, withinMs = patienceMs): Promise<void> {
  const end = performance.now() + withinMs
  while (!condition()) {
    assert.ok(performance.now() < end, `not within ${withinMs} ms`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
