/**
 * One HTTP call to a provider over kept connections, with a deadline. It never rejects: it ends with an answer (its
 * status and the bounded beginning of its body), or with none. Without an answer the question is whether the request
 * had left completely, because then it may have been carried out.
 */
import type { Agent as HttpAgent, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import https from 'node:https'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { http } from '../../node-http.ts'
import type { OnWritten, SendResult } from '../../ports.ts'
import { type Egress, proxyEnvOf, proxyFor, trustOf } from './egress.ts'

export interface HttpCallerOptions {
  /** Time from the call to the end of the answer, ms; the caller's signal may end it earlier. */
  readonly deadlineMs: number
  /** Bytes that are read of an answer; with more the connection is closed. @defaultValue 65_536 */
  readonly answerBytesMax?: number
  /** Idle connections to one host. */
  readonly idleMax: number
  /** Time after which an idle connection is closed, ms. */
  readonly idleMs: number
  /** Resolves host names. @defaultValue the machine's resolver */
  readonly lookup?: LookupFunction
  /** Proxy and authorities. @defaultValue direct, trusting the machine's authorities */
  readonly egress?: Egress | undefined
}

export interface HttpCall {
  readonly url: URL
  /** @defaultValue POST */
  readonly method?: string
  readonly headers: Readonly<Record<string, string | number>>
  readonly body: string | Uint8Array
  readonly signal: AbortSignal
  /** Called just before the request is written, which waits for the answer; where that is false, nothing is written. */
  readonly onWritten?: OnWritten | undefined
  /** True when a success needs only its status: then its body is not waited for. @defaultValue false */
  readonly statusSuffices?: boolean
}

export interface HttpAnswer {
  readonly answered: true
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The beginning of the body as UTF-8, up to `answerBytesMax`. */
  readonly text: string
}

export interface NoAnswer {
  readonly answered: false
  readonly error: Error | undefined
  /** True when the deadline passed. */
  readonly late: boolean
  /** True when the whole request had been written. */
  readonly sent: boolean
}

export interface HttpCaller {
  call(call: HttpCall): Promise<HttpAnswer | NoAnswer>
  close(): void
}

/** The end of a call that came too late to be written. */
export const tooLate: NoAnswer = {
  answered: false,
  error: new Error('it came too late to be sent'),
  late: false,
  sent: false,
}

export function createHttpCaller(options: HttpCallerOptions): HttpCaller {
  const { deadlineMs, answerBytesMax = 65_536, lookup, egress = {} } = options
  const proxyEnv = proxyEnvOf(egress)
  const settings = {
    keepAlive: true,
    scheduling: 'lifo',
    maxFreeSockets: options.idleMax,
    timeout: options.idleMs,
    // Through a proxy the guard would judge the proxy's address.
    ...(lookup === undefined || proxyEnv !== undefined ? {} : { lookup }),
    ...(proxyEnv === undefined ? {} : { proxyEnv }),
  } as const
  const plain = new http.Agent(settings)
  const secure = new https.Agent({ ...settings, ...trustOf(egress) })
  keepLateConnections(plain, 'connect')
  keepLateConnections(secure, 'secureConnect')

  return {
    async call({ url, method = 'POST', headers, body, signal, onWritten, statusSuffices = false }) {
      if (lookup !== undefined && proxyEnv !== undefined) {
        const error = await refusalOf(lookup, url)
        if (error !== null) return { answered: false, error, late: false, sent: false }
      }
      const isSecure = url.protocol === 'https:'
      return new Promise((resolve) => {
        const isTunnelled = isSecure && proxyFor(egress, url) !== undefined
        const opening: Opening = { isTunnelled, onOpen: leave, socket: undefined }
        const options: Options = {
          method,
          agent: isSecure ? secure : plain,
          headers: { 'content-length': Buffer.byteLength(body), ...headers },
          opening,
        }
        const request = (isSecure ? https : http).request(url, options)
        let isAnswered = false
        let late = false
        let mayLeave: boolean | Promise<void> | undefined
        /** Asks once if the request may be written, when its connection is open. */
        function leave(): Promise<void> | undefined {
          mayLeave ??= answered(onWritten?.() ?? true)
          return mayLeave instanceof Promise ? mayLeave : undefined
        }
        function answered(answer: boolean | Promise<boolean>): boolean | Promise<void> {
          if (answer === false) request.destroy()
          return answer instanceof Promise
            ? answer.then((may) => {
                mayLeave = answered(may)
              })
            : answer
        }
        function end(): void {
          if (!request.destroyed) request.end(body)
        }
        const giveUp = (): void => {
          late = true
          request.destroy()
          opening.socket?.destroy()
        }
        const timer = setTimeout(giveUp, deadlineMs)
        signal.addEventListener('abort', giveUp, { once: true })
        const unanswered = (error?: Error): void => {
          // Once there is a status, it decides the result: `read` resolves at the end of the answer, however that
          // comes.
          if (mayLeave === false) resolve(tooLate)
          else if (!isAnswered) resolve({ answered: false, error, late, sent: request.writableFinished })
        }
        // A kept connection is open already.
        request.on('socket', () => {
          const asked = leave()
          if (asked === undefined) end()
          else void asked.then(end)
        })
        request.on('response', (response) => {
          isAnswered = true
          read(response, { answerBytesMax, statusSuffices }, resolve)
        })
        request.on('error', unanswered)
        request.on('close', () => {
          clearTimeout(timer)
          signal.removeEventListener('abort', giveUp)
          unanswered()
        })
      })
    },
    close() {
      plain.destroy()
      secure.destroy()
    },
  }
}

/**
 * Checks a host by the resolver before a proxy is asked for it; the proxy resolves it again by itself. Answers the
 * error, if any.
 */
function refusalOf(lookup: LookupFunction, { hostname }: URL): Promise<Error | null> {
  const host = hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0) return Promise.resolve(null)
  return new Promise((resolve) => lookup(host, { all: true }, (error) => resolve(error)))
}

/** The connection that is opened for a request. */
interface Opening {
  /** True if the agent gives it to its request when the tunnel through a proxy is open. */
  readonly isTunnelled: boolean
  readonly onOpen: () => Promise<void> | undefined
  /** The connection while it is opened. */
  socket: Socket | undefined
}

type Options = https.RequestOptions & { readonly opening: Opening }
type Done = (error: Error | null, socket?: Socket) => void

/**
 * Makes an agent give a connection to its request only when it is open, after `onOpen`. The agent keeps a connection whose
 * request was destroyed by then, so that a call that came too late for a slow connection finds it open the next time.
 */
function keepLateConnections(agent: HttpAgent, opened: 'connect' | 'secureConnect'): void {
  const create = agent.createConnection.bind(agent) as unknown as (of: Options, done?: Done) => Socket
  const createWhenOpen = (options: Options, done: Done): Socket | undefined => {
    const { opening } = options
    let isGiven = false
    function give(error: Error | null, socket?: Socket): void {
      if (isGiven) return
      isGiven = true
      opening.socket = undefined
      done(error, socket)
    }
    /** Watches a connection until it is given; the returned function is called when it is open. */
    function watch(socket: Socket): () => void {
      opening.socket = socket
      const closed = (): void => give(new Error('the connection was closed'))
      socket.once('error', give)
      socket.once('close', closed)
      const pass = (): void => {
        socket.off('error', give)
        socket.off('close', closed)
        give(null, socket)
      }
      return () => {
        const asked = opening.onOpen()
        if (asked === undefined) pass()
        else void asked.then(pass)
      }
    }
    if (opening.isTunnelled)
      return create(options, (error, socket) => (error === null ? watch(socket!)() : give(error)))
    const socket = create(options)
    socket.once(opened, watch(socket))
    return undefined
  }
  agent.createConnection = createWhenOpen as unknown as HttpAgent['createConnection']
}

/** Reads an answer to its bounded end, so that its connection can be used again. */
function read(
  response: IncomingMessage,
  { answerBytesMax, statusSuffices }: { readonly answerBytesMax: number; readonly statusSuffices: boolean },
  settle: (answer: HttpAnswer) => void,
): void {
  const { statusCode: status = 0, headers } = response
  const chunks: Buffer[] = []
  let bytes = 0
  const answer = (): void =>
    settle({ answered: true, status, headers, text: Buffer.concat(chunks).toString('utf8') })
  if (statusSuffices && status >= 200 && status < 300) answer()
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= answerBytesMax) chunks.push(chunk)
    else response.destroy()
  })
  response.on('error', () => {})
  response.on('end', answer)
  response.on('close', answer)
}

/** Characters of an answer in a timeline. */
const detailMax = 200

/** Shortens an answer to a few printable words. */
export function detailOf({ status, text }: Pick<HttpAnswer, 'status' | 'text'>): string {
  const words = text
    .slice(0, 2 * detailMax)
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, detailMax)
  return words === '' ? String(status) : `${status} ${words}`
}

/**
 * The result of a call without an answer: the account's failure, and possibly delivered where all of the request had
 * left.
 */
export function failureOf({ error, late, sent }: NoAnswer): Extract<SendResult, { outcome: 'failed' }> {
  const what = late
    ? 'no answer in time'
    : ((error as NodeJS.ErrnoException | undefined)?.code ?? error?.message ?? 'no answer')
  return sent
    ? { outcome: 'failed', detail: `${what}, after the request was sent`, maybeDelivered: true }
    : { outcome: 'failed', detail: what }
}
