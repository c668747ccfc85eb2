/**
 * The sandbox as a server: one port that speaks HTTP/1.1 and HTTP/2 by the emulators of the providers
 * (providers/<name>/emulator.ts), and one that speaks SMTP. The fake provider (fake-provider.ts) decides the outcome of
 * each call, as it does in the process; the server tells it over a real socket: words, delays, resets, and silence.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import {
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import { type AddressInfo, createServer as createPort, type Socket } from 'node:net'
import type { EmulatorAnswer, SandboxRequest, Told } from '../providers/emulator.ts'
import { emulators } from '../providers/emulators.ts'
import { createSmtpDoor } from '../providers/smtp/emulator.ts'
import { createControl } from './control.ts'
import { createFakeProvider, type FakeProvider, type FakeProviderOptions } from './fake-provider.ts'
import type { SandboxMessage, SeenRequest } from './record.ts'

export interface SandboxServerOptions extends Partial<FakeProviderOptions<SandboxMessage>> {
  /** Address to listen on. @defaultValue 127.0.0.1 */
  readonly host?: string
  /** Port of HTTP. @defaultValue 0: any free port */
  readonly port?: number
  /** Port of SMTP. @defaultValue 0: any free port */
  readonly smtpPort?: number
}

export interface SandboxServer extends Omit<FakeProvider<SandboxMessage>, 'receive'> {
  /** Address of HTTP, such as `http://127.0.0.1:9100`. */
  readonly url: string
  /** Address of SMTP, such as `smtp://127.0.0.1:2525`. */
  readonly smtpUrl: string
  /** HTTP/2 sessions and HTTP/1.1 connections that are open. */
  connections(): number
  /** The last requests, oldest first. */
  requests(): readonly SeenRequest[]
  /** Closes every open connection, as a restarted server does. */
  hangUp(): void
  close(): Promise<void>
}

const seenMax = 1_000
const bodyBytesMax = 8_388_608

/** Arrivals with fractions of a millisecond, so that windows are counted exactly. */
const machineClock = { now: (): number => performance.timeOrigin + performance.now() }

type Request = IncomingMessage | Http2ServerRequest
type Response = ServerResponse | Http2ServerResponse

export async function createSandboxServer(options: SandboxServerOptions = {}): Promise<SandboxServer> {
  const { host = '127.0.0.1', clock = machineClock } = options
  const side = createFakeProvider<SandboxMessage>({ keep: 200_000, ...options, clock })
  const sockets = new Set<Socket>()
  const seen: SeenRequest[] = []
  let number = 0
  let url = ''
  const control = createControl({ side, seen })

  function note(shape: string, { method, path, headers, body }: SandboxRequest): void {
    const encoding = headers['content-encoding'] === 'aes128gcm' ? 'base64' : 'utf8'
    if (seen.length >= seenMax) seen.shift()
    seen.push({
      at: clock.now(),
      shape,
      method,
      path,
      headers: { ...headers },
      body: body.toString(encoding),
    })
  }

  async function serve(request: Request, response: Response): Promise<void> {
    const received = await readRequest(request, url, clock.now())
    if (received === undefined) return answer(response, { status: 413 })
    const own = control(received)
    if (own !== undefined) return answer(response, own)
    for (const emulator of emulators) {
      const read = emulator.read(received)
      if (read === undefined) continue
      note(emulator.name, received)
      if (read.isSend !== true) return answer(response, read)
      const { fate, retryAfter, delayMs } = side.receive(read.message, read.account)
      number += 1
      const telling = { send: read, retryAfter, number, now: clock.now() }
      if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs))
      if (fate === 'hang' || fate === 'hang_after_accept') return
      if (fate === 'reset' || fate === 'reset_after_accept') return reset(request)
      return answer(response, emulator.tell({ ...telling, fate: fate satisfies Told }))
    }
    answer(response, { status: 404, body: 'no provider has such a route' })
  }

  function reset(request: Request): void {
    const socket = 'stream' in request ? below.get(request.stream.session ?? {}) : request.socket
    if (socket?.destroyed === false) socket.resetAndDestroy()
  }

  const handle = (request: Request, response: Response): void => {
    serve(request, response).catch(() => reset(request))
  }
  const http1: Server = createServer({ keepAliveTimeout: 75_000 }, handle)
  const http2 = createHttp2Server(handle)
  http2.on('sessionError', () => {})
  /** The socket below an HTTP/2 session: it cannot be reset through the session. */
  const below = new WeakMap<object, Socket>()
  let arriving: Socket | undefined
  http2.on('session', (session) => {
    if (arriving !== undefined) below.set(session, arriving)
  })
  const port = createPort({ noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    // The first bytes tell HTTP/2 (RFC 9113, 3.4) from HTTP/1.1.
    socket.once('data', (bytes: Buffer) => {
      socket.pause()
      socket.unshift(bytes)
      if (bytes.toString('latin1', 0, 3) === 'PRI') {
        arriving = socket
        http2.emit('connection', socket)
        arriving = undefined
      } else {
        http1.emit('connection', socket)
        socket.resume()
      }
    })
  })
  const smtp = createSmtpDoor({ side })
  await Promise.all([listen(port, host, options.port ?? 0), smtp.listen(host, options.smtpPort ?? 0)])
  url = `http://${host}:${(port.address() as AddressInfo).port}`

  const { receive: _, ...record } = side
  return {
    ...record,
    url,
    smtpUrl: `smtp://${host}:${smtp.port()}`,
    connections: () => sockets.size,
    requests: () => seen,
    hangUp() {
      for (const socket of sockets) socket.destroy()
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      http1.close()
      http2.close()
      await Promise.all([new Promise((resolve) => port.close(resolve)), smtp.close()])
    },
  }
}

function listen(
  server: { listen(port: number, host: string, done: () => void): unknown } & NodeJS.EventEmitter,
  host: string,
  port: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
}

/** Reads the body; undefined where it is larger than any provider accepts. */
async function readRequest(
  request: Request,
  origin: string,
  now: number,
): Promise<SandboxRequest | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bodyBytesMax) return undefined
    chunks.push(chunk)
  }
  const target = new URL(request.url ?? '/', origin)
  return {
    method: request.method ?? 'GET',
    path: target.pathname,
    query: target.searchParams,
    headers: request.headers,
    body: Buffer.concat(chunks),
    http2: request.httpVersionMajor === 2,
    origin,
    now,
  }
}

function answer(response: Response, { status, headers = {}, body = '' }: EmulatorAnswer): void {
  const bare = response as ServerResponse
  bare.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) })
  bare.end(body)
}
