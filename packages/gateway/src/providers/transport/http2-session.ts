/**
 * One HTTP/2 connection with many concurrent calls. It is usable once the server's SETTINGS have come, which limit
 * the calls. After a late call it gets no others until a ping is answered. After a GOAWAY it knows which of its calls
 * the server never processed, and which may therefore be retried.
 */
import http2, {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2'

import { openTunnel } from './egress.ts'

export interface Http2SessionOptions {
  readonly origin: string
  /** Time until the server's SETTINGS have come, ms. */
  readonly connectMs: number
  /** Time between two pings, ms. */
  readonly pingMs: number
  /** Time until a ping is answered, ms; without an answer the connection is closed. */
  readonly pongMs: number
  readonly tls?: SecureClientSessionOptions
  /** Opens the socket of the connection. @defaultValue direct */
  readonly proxy?: URL
  /** Called when there is more or less room than before, or the session has ended. */
  readonly onChange: () => void
}

export type SessionState = 'connecting' | 'ready' | 'ending' | 'ended'

const { NGHTTP2_REFUSED_STREAM } = http2.constants
/** Characters of a server's reason for closing a connection. */
const farewellMax = 100

export class Http2Session {
  /** Absent until a proxy has opened a tunnel. */
  #session: ClientHttp2Session | undefined
  readonly #connecting = new AbortController()
  readonly #options: Http2SessionOptions
  readonly #timers: NodeJS.Timeout[] = []
  #state: SessionState = 'connecting'
  #streams = 0
  #doubted = false
  #served = false
  #error: Error | undefined
  /** Stream id of the last call that the server has processed, after a GOAWAY. */
  #lastStreamId = Number.POSITIVE_INFINITY

  constructor(options: Http2SessionOptions) {
    this.#options = options
    const late = setTimeout(() => this.destroy(new Error('no connection in time')), options.connectMs)
    this.#timers.push(late)
    const { origin, tls = {}, proxy } = options
    if (proxy === undefined) {
      this.#open(http2.connect(origin, tls), late)
      return
    }
    openTunnel(proxy, new URL(origin), tls, this.#connecting.signal).then(
      (socket) => {
        if (this.#state === 'ended') socket.destroy()
        else this.#open(http2.connect(origin, { ...tls, createConnection: () => socket }), late)
      },
      (error: Error) => this.destroy(error),
    )
  }

  #open(session: ClientHttp2Session, late: NodeJS.Timeout): void {
    const options = this.#options
    this.#session = session
    session.on('remoteSettings', () => {
      clearTimeout(late)
      if (this.#state === 'connecting') this.#becomeReady()
      options.onChange()
    })
    session.on('goaway', (code: number, lastStreamId: number, data?: Uint8Array) => {
      this.#lastStreamId = Math.min(this.#lastStreamId, lastStreamId)
      const words = Buffer.from(data ?? []).toString('utf8', 0, farewellMax)
      this.#error ??= new Error(
        `the server ended the connection (GOAWAY ${code} ${words}`.trimEnd().concat(')'),
      )
      this.#end('ending')
    })
    session.on('error', (error: Error) => {
      this.#error ??= error
    })
    session.on('close', () => this.#end('ended'))
  }

  get state(): SessionState {
    return this.#state
  }

  /** True once the session has been usable. */
  get served(): boolean {
    return this.#served
  }

  /** Calls on the session. */
  get streams(): number {
    return this.#streams
  }

  /** True when the session may take calls soon: it is connecting, or a ping is on its way. */
  get coming(): boolean {
    return this.#state === 'connecting' || (this.#state === 'ready' && this.#doubted)
  }

  /** The error that ended the session. */
  get error(): Error | undefined {
    return this.#error
  }

  /** How many more calls the session takes now, where none is to carry more than `streamsMax`. */
  room(streamsMax: number): number {
    const session = this.#session
    if (session === undefined || this.#state !== 'ready' || this.#doubted || session.closed) return 0
    const { maxConcurrentStreams = streamsMax } = session.remoteSettings
    return Math.min(streamsMax, maxConcurrentStreams) - this.#streams
  }

  /** Begins a call. Throws where the session has just ended. */
  request(headers: OutgoingHttpHeaders): ClientHttp2Stream {
    const stream = this.#session!.request(headers)
    this.#streams += 1
    stream.on('close', () => {
      this.#streams -= 1
      this.#options.onChange()
    })
    return stream
  }

  /** True when the server has certainly not processed the call (RFC 9113, 8.7): it may be retried. */
  isUntouched(stream: ClientHttp2Stream): boolean {
    return (
      stream.id === undefined || stream.rstCode === NGHTTP2_REFUSED_STREAM || stream.id > this.#lastStreamId
    )
  }

  /** Reports a call without an answer in time: the session takes no other until a ping is answered. */
  doubt(): void {
    if (this.#state !== 'ready' || this.#doubted) return
    this.#doubted = true
    this.#ping()
  }

  /** Takes no more calls, and closes when the calls on it have ended. */
  retire(): void {
    this.#end('ending')
    if (this.#session === undefined) this.destroy()
    else this.#session.close()
  }

  destroy(error?: Error): void {
    this.#error ??= error
    if (this.#session !== undefined) {
      this.#session.destroy()
      return
    }
    this.#connecting.abort()
    this.#end('ended')
  }

  #becomeReady(): void {
    this.#state = 'ready'
    this.#served = true
    const every = setInterval(() => this.#ping(), this.#options.pingMs)
    every.unref()
    this.#timers.push(every)
  }

  #ping(): void {
    const session = this.#session
    if (session === undefined || session.destroyed) return
    const silent = setTimeout(() => this.destroy(new Error('no answer to a ping')), this.#options.pongMs)
    silent.unref()
    session.ping((error) => {
      clearTimeout(silent)
      if (error !== null) return
      this.#doubted = false
      this.#options.onChange()
    })
  }

  #end(state: 'ending' | 'ended'): void {
    if (this.#state === 'ended') return
    this.#state = state
    for (const timer of this.#timers) clearTimeout(timer)
    this.#options.onChange()
  }
}
