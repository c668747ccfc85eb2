/**
 * Calls to one origin over HTTP/2. Calls share sessions, as many on each as it accepts, and another session is opened
 * when the open ones are full; the number of sessions follows the allowed concurrency (`resize`). A call that the
 * server has certainly not processed is retried automatically; one that had left and was not answered may have been
 * carried out.
 */
import type { IncomingHttpHeaders } from 'node:http'
import http2, { type ClientHttp2Stream, type SecureClientSessionOptions } from 'node:http2'
import { type Egress, proxyFor, trustOf } from './egress.ts'
import { type HttpAnswer, type HttpCall, type HttpCaller, type NoAnswer, tooLate } from './http-call.ts'
import { Http2Session } from './http2-session.ts'

export interface Http2CallerOptions {
  readonly origin: string
  /** Time from the call to the end of the answer, ms; the caller's signal may end it earlier. */
  readonly deadlineMs: number
  /** Bytes that are read of an answer. @defaultValue 65_536 */
  readonly answerBytesMax?: number
  /** Calls on one session before another is opened; the server may allow fewer. @defaultValue 100 */
  readonly streamsMax?: number
  /** Sessions at once, until `resize` says otherwise. @defaultValue 10 */
  readonly sessionsMax?: number
  /** Most calls that wait for a place on a session; one more fails. @defaultValue 10_000 */
  readonly waitingMax?: number
  /** Time until a session is usable, ms. @defaultValue 5_000 */
  readonly connectMs?: number
  /** Time between two pings, ms. @defaultValue 60_000 */
  readonly pingMs?: number
  /** Time until a ping is answered, ms. @defaultValue 2_000 */
  readonly pongMs?: number
  /** Authorities for servers with a private certificate. @defaultValue the machine's authorities */
  readonly tls?: SecureClientSessionOptions
  /** Proxy and authorities. @defaultValue direct, trusting the machine's authorities */
  readonly egress?: Egress | undefined
}

export interface Http2Caller extends HttpCaller {
  /** Sets the number of concurrent calls: surplus sessions close when the calls on them have ended. */
  resize(concurrency: number): void
  /** Opens a session ahead of the first call. */
  open(): void
  /** Sessions that are connecting or take calls. */
  sessions(): number
}

interface Exchange {
  readonly call: HttpCall
  readonly settle: (result: HttpAnswer | NoAnswer) => void
  stream: ClientHttp2Stream | undefined
  session: Http2Session | undefined
  late: boolean
  /** Number of attempts so far. */
  attempts: number
}

/** Most attempts of a call that no server processes. */
const attemptsMax = 3
const { NGHTTP2_CANCEL } = http2.constants

export function createHttp2Caller(options: Http2CallerOptions): Http2Caller {
  const { origin, deadlineMs, answerBytesMax = 65_536, streamsMax = 100, waitingMax = 10_000 } = options
  const { egress = {} } = options
  const tls = { ...trustOf(egress), ...options.tls }
  const proxy = proxyFor(egress, new URL(origin))
  const times = {
    connectMs: options.connectMs ?? 5_000,
    pingMs: options.pingMs ?? 60_000,
    pongMs: options.pongMs ?? 2_000,
  }
  const sessions = new Set<Http2Session>()
  /** Waiting calls, first come, first served. */
  const waiting = new Set<Exchange>()
  let sessionsMax = options.sessionsMax ?? 10
  let closed = false

  const serving = (): Http2Session[] =>
    [...sessions].filter(({ state }) => state === 'connecting' || state === 'ready')

  function connect(): void {
    const session: Http2Session = new Http2Session({
      origin,
      ...times,
      tls,
      ...(proxy === undefined ? {} : { proxy }),
      onChange: () => changed(session),
    })
    sessions.add(session)
  }

  function changed(session: Http2Session): void {
    const gone = session.state === 'ended' && sessions.delete(session)
    // Calls that wait for an unreachable server fail now; the next call tries to connect again.
    if (gone && !session.served && serving().length === 0) failWaiting(session.error)
    if (!closed) serve()
  }

  function failWaiting(error: Error | undefined): void {
    for (const exchange of waiting) {
      waiting.delete(exchange)
      exchange.settle({ answered: false, error, late: false, sent: false })
    }
  }

  /** Gives waiting calls to the sessions with the most room, and opens another session where there is none. */
  function serve(): void {
    for (const exchange of waiting) {
      const session = roomiest()
      if (session === undefined) break
      waiting.delete(exchange)
      begin(exchange, session)
    }
    if (waiting.size === 0) return
    const open = serving()
    const coming = open.filter((session) => session.coming).length
    const wanted = Math.ceil(waiting.size / streamsMax) - coming
    for (let more = Math.min(wanted, sessionsMax - open.length); more > 0; more -= 1) connect()
  }

  function roomiest(): Http2Session | undefined {
    let best: Http2Session | undefined
    let most = 0
    for (const session of sessions) {
      const room = session.room(streamsMax)
      if (room > most) [best, most] = [session, room]
    }
    return best
  }

  function begin(exchange: Exchange, session: Http2Session): void {
    const may = exchange.call.onWritten?.() ?? true
    if (may === true) {
      write(exchange, session)
      return
    }
    if (may === false) {
      exchange.settle(tooLate)
      return
    }
    void may.then((isCounted) => {
      if (exchange.late || closed) return
      if (!isCounted) exchange.settle(tooLate)
      else if (session.room(streamsMax) > 0) write(exchange, session)
      else {
        waiting.add(exchange)
        serve()
      }
    })
  }

  function write(exchange: Exchange, session: Http2Session): void {
    const { url, method = 'POST', headers, body } = exchange.call
    exchange.attempts += 1
    let stream: ClientHttp2Stream
    try {
      stream = session.request({
        ':method': method,
        ':path': url.pathname + url.search,
        'content-length': Buffer.byteLength(body),
        ...headers,
      })
    } catch (error) {
      exchange.settle({ answered: false, error: error as Error, late: false, sent: false })
      return
    }
    exchange.stream = stream
    exchange.session = session
    read(stream, answerBytesMax, (answer, error) => {
      if (answer !== undefined) exchange.settle(answer)
      else unanswered(exchange, stream, session, error)
    })
    stream.end(body)
  }

  function unanswered(
    exchange: Exchange,
    stream: ClientHttp2Stream,
    session: Http2Session,
    error: Error | undefined,
  ): void {
    const untouched = session.isUntouched(stream)
    if (untouched && !exchange.late && !closed && exchange.attempts < attemptsMax) {
      waiting.add(exchange)
      serve()
      return
    }
    exchange.settle({
      answered: false,
      error: session.error ?? error ?? new Error('the call was cut off'),
      late: exchange.late,
      sent: !untouched,
    })
  }

  function giveUp(exchange: Exchange): void {
    exchange.late = true
    waiting.delete(exchange)
    if (exchange.stream === undefined)
      exchange.settle({ answered: false, error: undefined, late: true, sent: false })
    exchange.stream?.close(NGHTTP2_CANCEL)
    exchange.session?.doubt()
  }

  return {
    call: (call) =>
      new Promise((resolve) => {
        const cancel = (): void => giveUp(exchange)
        const timer = setTimeout(cancel, deadlineMs)
        call.signal.addEventListener('abort', cancel, { once: true })
        const exchange: Exchange = {
          call,
          stream: undefined,
          session: undefined,
          late: false,
          attempts: 0,
          settle(result) {
            clearTimeout(timer)
            call.signal.removeEventListener('abort', cancel)
            resolve(result)
          },
        }
        if (waiting.size >= waitingMax)
          exchange.settle({
            answered: false,
            error: new Error('too many calls wait'),
            late: false,
            sent: false,
          })
        else {
          waiting.add(exchange)
          serve()
        }
      }),
    resize(concurrency) {
      sessionsMax = Math.max(1, Math.ceil(concurrency / streamsMax))
      const surplus = serving()
        .sort((a, b) => b.streams - a.streams)
        .slice(sessionsMax)
      for (const session of surplus) session.retire()
      serve()
    },
    open() {
      if (!closed && serving().length === 0) connect()
    },
    sessions: () => serving().length,
    close() {
      closed = true
      failWaiting(new Error('the provider is closed'))
      for (const session of sessions) session.destroy()
    },
  }
}

/** Reads an answer to its end; without a status there was no answer. */
function read(
  stream: ClientHttp2Stream,
  bytesMax: number,
  done: (answer: HttpAnswer | undefined, error: Error | undefined) => void,
): void {
  let head: { status: number; headers: IncomingHttpHeaders } | undefined
  let failure: Error | undefined
  const chunks: Buffer[] = []
  let bytes = 0
  stream.on('response', ({ ':status': status = 0, ...headers }) => {
    head = { status, headers: headers as IncomingHttpHeaders }
  })
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= bytesMax) chunks.push(chunk)
    else stream.close(NGHTTP2_CANCEL)
  })
  stream.on('error', (error: Error) => {
    failure = error
  })
  stream.on('close', () => {
    const text = Buffer.concat(chunks).toString('utf8')
    done(head === undefined ? undefined : { answered: true, ...head, text }, failure)
  })
}
