/**
 * The HTTP server of the gateway. A request passes, in this order, the limits of size and time, the one before
 * it on its connection (pipelines.ts), the fair request scheduler (fair-request-scheduler.ts), authentication,
 * the parser (json.ts), the schema (validation.ts), the bulkhead of its tenant (tenant-bulkhead.ts), and its
 * handler in routes/; every error on the way leaves as a problem (problem.ts).
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { BacklogReports } from '../backlog-cell.ts'
import { SluiceError } from '../errors.ts'
import type { Channel } from '../model.ts'
import type { LogFields } from '../observability/log-events.ts'
import { createMetrics, type Metrics } from '../observability/metrics.ts'
import type { RequestLog } from '../observability/request-log.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, Store, Templates } from '../ports.ts'
import type { Gate, Jobs, Ledger, PoolReport, Recipients } from '../stages.ts'
import { createApp } from './app.ts'
import type { Offer } from './draft.ts'
import type { FairRequestSchedulerOptions } from './fair-request-scheduler.ts'
import { createHeavyRequestPacer } from './heavy-request-pacer.ts'
import { createIdempotency } from './idempotency.ts'
import { type Authenticate, loopbackIdentity, refuseForeignHost } from './identity.ts'
import { addLimitHeaders, type LimitHeaders } from './limit-headers-hook.ts'
import { openApiDocument, version } from './openapi.ts'
import { createOverview, noBacklog } from './overview.ts'
import type { OverviewSeries } from './overview-series.ts'
import { asSluiceError, nothing, sendProblem } from './problem.ts'
import { createRecipientEditor } from './recipient-editor.ts'
import { createRefusedRequests } from './refused-requests.ts'
import { createRequestLimits, type RequestRates } from './request-limits.ts'
import type { Route } from './route.ts'
import { backlogRoutes } from './routes/backlog.ts'
import { batchRoutes } from './routes/batch.ts'
import { callerRoutes } from './routes/caller.ts'
import { createEventRoutes } from './routes/events.ts'
import { jobRoutes } from './routes/jobs.ts'
import { notificationRoutes } from './routes/notifications.ts'
import { operationRoutes } from './routes/operations.ts'
import { probeRoutes } from './routes/probes.ts'
import { recipientRoutes } from './routes/recipients.ts'
import { searchRoutes } from './routes/search.ts'
import { unsubscribeRoutes } from './routes/unsubscribe.ts'
import { webSocketRoutes } from './routes/websocket.ts'
import { addRoutes } from './routing.ts'
import { createTenantBulkhead } from './tenant-bulkhead.ts'
import type { UnsubscribeLinks } from './unsubscribe.ts'
import { createUnsubscribeLimits } from './unsubscribe-limits.ts'
import type { WebSocketHub } from './websocket/hub.ts'
import { createWebSockets, type WebSocketConfig } from './websocket/upgrade.ts'

export interface HttpServerConfig {
  /** @defaultValue 127.0.0.1 */
  readonly host: string
  /** 0 takes any free port. */
  readonly port: number
  /** Deadline of a graceful shutdown before connections are cut, ms. */
  readonly drainMs: number
  /** A stop answers as not ready for this long before it refuses new connections, ms. @defaultValue 0 */
  readonly drainDelayMs?: number
  /** The public address of this gateway. */
  readonly publicUrl?: string | undefined
  /** The status of a request that was queued because of a tenant or module limit. */
  readonly overLimitStatus: 429 | 202
  /** Deadline for the arrival of a whole request, ms. */
  readonly requestTimeoutMs: number
  /** Open connections at most; further ones are dropped. */
  readonly connectionsMax: number
  /** A connection may stand still this long while it is answered. @defaultValue 60_000 ms */
  readonly standstillMs?: number
  readonly bodyMaxBytes: number
  readonly batchBodyMaxBytes: number
  /** Bytes of `data` at most, as JSON. */
  readonly dataMaxBytes: number
}

interface HttpLog {
  error(fields: LogFields, text?: string): void
}

export interface HttpServerOptions {
  readonly config: HttpServerConfig
  readonly gate: Gate
  /** Erases a recipient from every record. */
  readonly erase: (tenant: string, recipient: string) => Promise<void>
  readonly jobs: Jobs
  readonly store: Store
  readonly ledger: Ledger
  readonly policy: Policy
  readonly templates: Pick<Templates, 'has' | 'hasSubject'>
  readonly recipients: Recipients
  /** Channels that a pool serves. */
  readonly channels: readonly Channel[]
  /** Channels on which the accounts have a fixed address. @defaultValue none */
  readonly selfAddressed?: ReadonlySet<Channel>
  /** Channels with a provider that requires a subject. @defaultValue none */
  readonly needsSubject?: ReadonlySet<Channel>
  readonly pools: () => readonly PoolReport[]
  /** @defaultValue metrics of the ledger, the jobs and the pools alone */
  readonly metrics?: Metrics
  /** True where the metrics are served on a port of their own. @defaultValue false */
  readonly metricsElsewhere?: boolean
  /** Counts of what waits. @defaultValue nothing waits */
  readonly backlog?: BacklogReports
  readonly links?: UnsubscribeLinks
  readonly clock: Clock
  readonly log: HttpLog
  /** @defaultValue requests have no lines */
  readonly requestLog?: RequestLog
  /**
   * Authenticates callers. @defaultValue every caller is accepted, as tenant and module `default` or as the
   * headers name
   */
  readonly authenticate?: Authenticate
  /** Rate limits of a tenant's requests that send nothing. @defaultValue unlimited */
  readonly requestRatesOf?: (tenant: string) => RequestRates
  /** Rate limit headers of every answer about notifications. @defaultValue none */
  readonly limitHeaders?: LimitHeaders
  /** @defaultValue there is no WebSocket */
  readonly webSocket?: WebSocketOptions
}

interface WebSocketOptions {
  readonly config: WebSocketConfig
  readonly hub: WebSocketHub
  /** Connections of one tenant at most. */
  readonly connectionsMaxOf: (tenant: string) => number
}

export interface HttpServer {
  /** Resolves with the address when requests are answered. */
  listen(): Promise<string>
  /**
   * Graceful shutdown: answers as not ready for `drainDelayMs`; then refuses new connections, answers the
   * requests that have arrived, and cuts those that are not done within `drainMs`.
   */
  close(): Promise<void>
}

const releaseEveryMs = 50
const unlimited: RequestRates = { reads: [], writes: [] }

export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { config } = options
  const { ledger, jobs, pools, clock, backlog = noBacklog } = options
  const hub = options.webSocket?.hub
  const metrics =
    options.metrics ??
    createMetrics({ ledger, jobs, poolReports: pools, ...(hub === undefined ? {} : { webSocket: hub }) })
  const events = createEventRoutes({ ledger, clock })
  const overview = createOverview({ ledger, backlog, pools, clock })
  const refused = createRefusedRequests({ clock, series: overview.series })
  let closing = false
  const routes = withDocument(
    [
      ...routesOf(options, metrics, () => closing, overview.series),
      ...backlogRoutes({ backlog, overview, requests: refused, pools, clock }),
      ...events.routes,
    ],
    options.authenticate !== undefined,
  )
  const authenticate = options.authenticate ?? loopbackIdentity
  const pacer = createHeavyRequestPacer({ clock: options.clock })
  const app = createApp({
    ...config,
    fairnessKeyOf: parties(routes, authenticate),
    pacer,
    metrics: metrics.http,
    ...(options.requestLog === undefined ? {} : { requestLog: options.requestLog }),
  })
  if (options.limitHeaders !== undefined) addLimitHeaders(app, options.limitHeaders, authenticate)
  if (options.authenticate === undefined) refuseForeignHosts(app, config.publicUrl)
  addRoutes(app, routes, {
    authenticate,
    shares: createTenantBulkhead(options.clock),
    pacer,
    limits: createRequestLimits({ ratesOf: options.requestRatesOf ?? (() => unlimited) }),
  })
  answerTheRest(app, routes, options.log)
  refused.attach(app)
  const sockets =
    options.webSocket === undefined
      ? undefined
      : createWebSockets({
          config: options.webSocket.config,
          hub: options.webSocket.hub,
          connectionsMaxOf: options.webSocket.connectionsMaxOf,
          ...(options.authenticate === undefined ? {} : { authenticate: options.authenticate }),
          clock: options.clock,
          onError: (error) => options.log.error({ event: 'http.error', err: error, route: '/ws' }),
        })
  sockets?.attach(app.server)
  // Streams never end by themselves, and the server would wait for them.
  app.addHook('preClose', async () => {
    events.close()
    await sockets?.close(config.drainMs)
  })

  return {
    async listen() {
      await app.listen({ host: config.host, port: config.port })
      const address = app.server.address()
      if (address === null || typeof address === 'string') throw new TypeError('the server has no address')
      const host = address.family === 'IPv6' ? `[${address.address}]` : address.address
      return `http://${host}:${address.port}`
    },
    async close() {
      closing = true
      metrics.draining()
      const { drainDelayMs = 0 } = config
      // Without a delay new connections are refused from this moment on.
      if (drainDelayMs > 0) await delay(drainDelayMs)
      const cut = setTimeout(() => app.server.closeAllConnections(), config.drainMs)
      // A connection that was busy when the closing began stays open after its answer; nothing else closes it.
      const release = setInterval(() => app.server.closeIdleConnections(), releaseEveryMs)
      try {
        await app.close()
      } finally {
        clearInterval(release)
        clearTimeout(cut)
        metrics.close()
        overview.close()
      }
    },
  }
}

function routesOf(
  options: HttpServerOptions,
  metrics: Metrics,
  isClosing: () => boolean,
  series: OverviewSeries,
): readonly Route[] {
  const { config, clock, templates, channels, store, gate, links, recipients } = options
  const { ledger, jobs, policy, pools, erase } = options
  const offer: Offer = {
    templates,
    channels: new Set(channels),
    selfAddressed: options.selfAddressed ?? new Set(),
    needsSubject: options.needsSubject ?? new Set(),
    dataMaxBytes: config.dataMaxBytes,
  }
  const idempotency = createIdempotency({ store, clock })
  const editor = createRecipientEditor({ gate, store })
  const onAccepted = (tookMs: number): void => {
    metrics.onAccepted(tookMs)
    series.observe('accept', tookMs)
  }
  return [
    ...notificationRoutes({
      gate,
      store,
      ledger,
      recipients,
      policy,
      pools,
      clock,
      offer,
      idempotency,
      overLimitStatus: config.overLimitStatus,
      onAccepted,
    }),
    ...batchRoutes({
      gate,
      jobs,
      recipients,
      offer,
      idempotency,
      clock,
      bodyMaxBytes: config.batchBodyMaxBytes,
    }),
    ...searchRoutes({ store, ledger, clock }),
    ...callerRoutes({ clock, policy, withKeys: options.authenticate !== undefined, version }),
    ...jobRoutes({ jobs, store, ledger }),
    ...recipientRoutes({ gate, store, ledger, editor, clock, erase }),
    ...operationRoutes({ gate, store, ledger, policy, templates, pools, idempotency, clock }),
    ...probeRoutes({
      store,
      isClosing,
      metrics: options.metricsElsewhere === true ? undefined : metrics,
      pools,
    }),
    ...(links?.urlFor === undefined
      ? []
      : unsubscribeRoutes({ links, editor, recipients, limits: createUnsubscribeLimits() })),
    ...(options.webSocket === undefined ? [] : webSocketRoutes()),
  ]
}

/**
 * Checks the host, also on public routes. One-click links may come through a proxy that keeps the name of
 * `publicUrl`.
 */
function refuseForeignHosts(app: FastifyInstance, publicUrl: string | undefined): void {
  const publicHost = publicUrl === undefined ? undefined : new URL(publicUrl).host
  app.addHook('onRequest', (request, _reply, done) => {
    const { headers, url } = request
    try {
      if (publicHost === undefined || headers.host !== publicHost || !url.startsWith('/u/'))
        refuseForeignHost(headers)
      done()
    } catch (error) {
      done(error as Error)
    }
  })
}

/** Adds the route at which the table is published. */
function withDocument(routes: readonly Route[], withKeys: boolean): readonly Route[] {
  const document: Route = {
    method: 'GET',
    path: '/openapi.json',
    operation: 'getOpenApi',
    tag: 'Probes',
    summary: 'This document',
    access: 'open',
    answers: { 200: { description: 'OpenAPI 3.1', type: 'application/json' } },
    handle: () => published,
  }
  const all = [...routes, document]
  const published = openApiDocument(all, { withKeys })
  return all
}

const everybody = Symbol('those who ask for what is open to all')
const bloomFilter = Symbol('those whose token is not known yet')

/** The fairness key of a request (fair-request-scheduler.ts). */
function parties(
  routes: readonly Route[],
  { tenantOf }: Authenticate,
): FairRequestSchedulerOptions['fairnessKeyOf'] {
  const open = new Set(routes.filter(({ access }) => access === 'open').map(({ path }) => path))
  return (request) => (open.has(request.url!) ? everybody : (tenantOf?.(request) ?? bloomFilter))
}

/** Answers unknown paths and methods, and every error. */
function answerTheRest(app: FastifyInstance, routes: readonly Route[], log: HttpLog): void {
  const places = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>()
  for (const { path, method, stream } of routes) {
    const place = places.get(path) ?? { pattern: patternOf(path), methods: new Set<string>() }
    place.methods.add(method)
    if (method === 'GET' && stream !== true) place.methods.add('HEAD')
    places.set(path, place)
  }

  function notFound(request: FastifyRequest, reply: FastifyReply): void {
    const path = request.url.split('?', 1)[0]!
    // The literal path wins: `/notifications/batch` before `/notifications/:id`.
    const meant = places.get(path)
    const fitting =
      meant === undefined ? [...places.values()].filter(({ pattern }) => pattern.test(path)) : [meant]
    const methods = new Set(fitting.flatMap((place) => [...place.methods]))
    if (methods.size === 0) {
      sendProblem(reply, nothing())
      return
    }
    const allow = [...methods].join(', ')
    reply.header('allow', allow)
    sendProblem(reply, new SluiceError('METHOD_NOT_ALLOWED', `This path takes ${allow}.`))
  }

  // Otherwise a method of another route would be applied to a literal path: to the notification `batch`.
  for (const [url, { methods }] of places) {
    for (const { method, path } of routes) {
      if (path === url || methods.has(method) || !places.get(path)!.pattern.test(url)) continue
      app.route({ method, url, onRequest: callNotFound, handler: callNotFound })
    }
  }
  app.setNotFoundHandler(notFound)
  app.setErrorHandler((error, request, reply) => {
    const known = asSluiceError(error)
    // Fastify would close the connection here, and a client that is still sending would find it reset and not
    // read why. Node reads past the rest of the body, for no longer than a whole request may take.
    if (known.code === 'PAYLOAD_TOO_LARGE') reply.removeHeader('connection')
    if (request.is404) return notFound(request, reply)
    // A damaged row was logged when it was found.
    if (known.status >= 500 && known.row === undefined)
      log.error({
        event: 'http.error',
        err: error,
        requestId: request.id,
        method: request.method,
        route: request.routeOptions.url,
      })
    sendProblem(reply, known)
  })
}

function callNotFound(_request: FastifyRequest, reply: FastifyReply): void {
  reply.callNotFound()
}

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/[.]/g, '\\.').replaceAll(/:[a-z]+/g, '[^/]+')}$`)
}
