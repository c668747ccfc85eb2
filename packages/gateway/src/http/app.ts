/**
 * Configures Fastify for the gateway: nothing stripped, nothing coerced, every size and time bounded, and one
 * form of refusal, also for input that is no request yet.
 */
import type { RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { SluiceError } from '../errors.ts'
import { http } from '../node-http.ts'
import { createHttpMetrics, type HttpMetrics } from '../observability/http-metrics.ts'
import { createMeter } from '../observability/meter.ts'
import type { RequestLog } from '../observability/request-log.ts'
import { createBodyParser, hashOf, largeBytes } from './body-parser.ts'
import { createFairRequestScheduler, type FairRequestSchedulerOptions } from './fair-request-scheduler.ts'
import type { HeavyRequestPacer } from './heavy-request-pacer.ts'
import { parseJson } from './json.ts'
import { createPipelines, isExcused, isFollowed } from './pipelines.ts'
import { asSluiceError, refuseSocket, sendProblem, unsupportedMediaType } from './problem.ts'
import { requestIdOf } from './request-id.ts'
import { noteArrival, observeRequests } from './request-observer.ts'
import { createSilentConnections } from './silent-connections.ts'
import { refuseEncoded, refuseRepeated } from './single-headers.ts'
import { isWebSocketUpgrade } from './websocket/request.ts'

/** Interval at which connections are checked against their deadlines. */
const deadlineCheckMs = 1_000
/** Timeout of an idle connection between two requests. */
const keepAliveMs = 72_000

export interface AppOptions {
  readonly bodyMaxBytes: number
  /** Deadline for the arrival of a whole request, ms. */
  readonly requestTimeoutMs: number
  /** Open connections at most; further ones are dropped. */
  readonly connectionsMax: number
  /**
   * A connection may stand still this long while it is answered: its client does not read then. Longer than the
   * heartbeat interval of a stream.
   *
   * @defaultValue 60_000 ms
   */
  readonly standstillMs?: number
  /** @defaultValue all requests share one fairness key */
  readonly fairnessKeyOf?: FairRequestSchedulerOptions['fairnessKeyOf']
  /** Paces bodies that are parsed in the thread. @defaultValue none is paced */
  readonly pacer?: Pick<HeavyRequestPacer, 'pace' | 'close'>
  /** True leaves requests unmeasured. @defaultValue always false */
  readonly unobserved?: () => boolean
  /** @defaultValue requests have no lines */
  readonly requestLog?: RequestLog
  /** @defaultValue metrics that are not scraped */
  readonly metrics?: HttpMetrics
}

type MeasuredAppOptions = AppOptions & { readonly metrics: HttpMetrics }

export function createApp(options: AppOptions): FastifyInstance {
  const config = { metrics: createHttpMetrics(createMeter()), ...options }
  const app = Fastify({
    logger: false,
    genReqId: requestIdOf,
    requestIdHeader: false,
    bodyLimit: config.bodyMaxBytes,
    // Fastify's bound on opening and closing is 10 s; ours on closing is `drainMs`, and closing connections may
    // take longer.
    pluginTimeout: 0,
    serverFactory: (handle) => createHttp(config, handle as RequestListener),
    // While the server closes, requests that have arrived are still answered.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: 4_096 },
    clientErrorHandler: (error, socket) => refuseClient(error, socket, config),
    frameworkErrors: (error: FastifyError, _request: FastifyRequest, reply: FastifyReply) => {
      sendProblem(reply, asSluiceError(error))
    },
  })
  app.server.maxConnections = config.connectionsMax
  // An idle connection makes room for a new one.
  app.server.on('drop', () => app.server.closeIdleConnections())
  observeRequests(app, config.metrics, config.requestLog, config.unobserved)
  app.decorateRequest('caller')
  app.decorateRequest('received', null)
  app.addHook('onRequest', (request, reply, done) => {
    // While Fastify closes, it lets every answer end its connection; requests that have arrived after it are
    // to be answered too.
    if (reply.raw.hasHeader('connection') && isFollowed(request.raw.socket))
      reply.raw.removeHeader('connection')
    if (request.headers.host === undefined && request.raw.httpVersionMinor === 1) {
      reply.header('connection', 'close')
      done(new SluiceError('INVALID_REQUEST', 'An HTTP/1.1 request needs a Host header.'))
      return
    }
    try {
      refuseRepeated(request.raw.rawHeaders)
      refuseEncoded(request.headers['content-encoding'])
      done()
    } catch (error) {
      done(error as Error)
    }
  })
  const bodies = createBodyParser()
  const silent = createSilentConnections(app.server)
  app.addHook('preClose', async () => {
    silent.end()
    config.pacer?.close()
  })
  app.addHook('onClose', () => bodies.close())
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    ['application/json', 'application/merge-patch+json'],
    { parseAs: 'buffer' },
    (request, bytes: Buffer, done) => {
      if (request.is404 || (bytes.length === 0 && request.method === 'DELETE')) return done(null, undefined)
      if (!isUtf8Type(request.headers['content-type'])) return done(unsupportedMediaType(), undefined)
      const { length } = bytes
      if (length > largeBytes && request.routeOptions.config.bodyApart === true) {
        const withHash = request.headers['idempotency-key'] !== undefined
        const { tenant } = request.caller
        const parse = (): void => {
          // A request whose client has gone is not worked on: its response is closed already.
          if (request.raw.socket.destroyed) return
          bodies.parse(tenant, bytes, withHash).then(({ value, hash = '' }) => {
            request.received = { length, hash: () => hash }
            done(null, value)
          }, done)
        }
        const turn = config.pacer?.pace(tenant, length)
        if (turn === undefined) parse()
        else void turn.then(parse)
        return
      }
      request.received = { length, hash: () => hashOf(bytes) }
      try {
        done(null, parseJson(bytes))
      } catch (error) {
        done(error as Error, undefined)
      }
    },
  )
  return app
}

/** Creates Node's server: its deadlines, and the fair request scheduler in front of the routes. */
function createHttp(config: MeasuredAppOptions, handle: RequestListener): Server {
  const { requestTimeoutMs, standstillMs = 60_000, fairnessKeyOf = () => 'everybody', metrics } = config
  let waiting = 0
  metrics.waiting = () => waiting
  const onWaiting = (by: 1 | -1): void => {
    waiting += by
  }
  const schedule = createFairRequestScheduler({ handle, fairnessKeyOf, onWaiting })
  const arrive: RequestListener = (request, response) => {
    noteArrival(request)
    schedule(request, response)
  }
  const server = http.createServer(
    {
      requestTimeout: requestTimeoutMs,
      // Headers get the deadline of the whole request, or a client could stay by never ending them.
      headersTimeout: requestTimeoutMs,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: deadlineCheckMs,
      // A missing Host is refused above, with a problem that says so.
      requireHostHeader: false,
      // A request for another protocol, or for WebSocket at another path, is answered in HTTP.
      shouldUpgradeCallback: isWebSocketUpgrade,
    },
    createPipelines({ handle: arrive }),
  )
  return server.setTimeout(standstillMs)
}

/** True for UTF-8: JSON is UTF-8 (RFC 8259), and another charset would be read wrongly. */
function isUtf8Type(type: string | undefined): boolean {
  if (type === undefined || type === 'application/json') return true
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(type)?.[1]?.toLowerCase()
  return charset === undefined || charset === 'utf-8' || charset === 'utf8'
}

/**
 * Refuses input that is no HTTP, or came too slowly: there is no request yet, so the answer is written by hand.
 */
function refuseClient(
  error: Error & { code?: string },
  socket: Socket,
  { requestTimeoutMs, metrics }: Pick<MeasuredAppOptions, 'requestTimeoutMs' | 'metrics'>,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const refuse = (): void => {
    const refusal = clientErrorOf(error.code)
    metrics.refused(refusal.code)
    refuseSocket(socket, refusal)
  }
  const isLate = error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
  if (!isLate || !isExcused(socket, requestTimeoutMs, refuse)) refuse()
}

function clientErrorOf(code: string | undefined): SluiceError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new SluiceError('REQUEST_TIMEOUT', 'The request did not arrive in time.')
    case 'HPE_HEADER_OVERFLOW':
      return new SluiceError('INVALID_REQUEST', 'The headers are larger than 16 KiB.')
    default:
      return new SluiceError('INVALID_REQUEST', 'This is not valid HTTP.')
  }
}
