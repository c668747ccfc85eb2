/**
 * The HTTP server of the gateway. A request passes, in this order, the limits of size and time, the one before
 * it on its connection (pipelines.ts), the fair request scheduler (fair-request-scheduler.ts), authentication,
 * the parser (json.ts), the schema (validation.ts), the bulkhead of its tenant (tenant-bulkhead.ts), and its
 * handler in routes/; every error on the way leaves as a problem (problem.ts).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { createMetrics } from '../observability/metrics.ts'
import { createApp } from './app.ts'
import { answerTheRest } from './error-handler.ts'
import type { FairRequestSchedulerOptions } from './fair-request-scheduler.ts'
import { shareSeries } from './fleet-series.ts'
import { createHeavyRequestPacer } from './heavy-request-pacer.ts'
import { type Authenticate, loopbackIdentity, refuseForeignHosts } from './identity.ts'
import { addLimitHeaders } from './limit-headers-hook.ts'
import { withDocument } from './openapi.ts'
import { createOverview, noBacklog, noOrphans } from './overview.ts'
import { createRefusedRequests } from './refused-requests.ts'
import { createRequestLimits, type RequestRates } from './request-limits.ts'
import type { Route } from './route.ts'
import { routeTable } from './route-table.ts'
import { backlogRoutes } from './routes/backlog.ts'
import { createEventRoutes } from './routes/events.ts'
import { createOverviewStream } from './routes/overview-stream.ts'
import { createPoolsStream } from './routes/pools-stream.ts'
import { addRoutes } from './routing.ts'
import type { HttpServerOptions } from './server-options.ts'
import { createTenantBulkhead } from './tenant-bulkhead.ts'
import { createWebSockets } from './websocket/upgrade.ts'

export interface HttpServer {
  /** Resolves with the address when requests are answered. */
  listen(): Promise<string>
  /** Records how long a durable commit took, ms: for the overview. */
  committed(tookMs: number): void
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
  const { ledger, jobs, pools, clock, peers, backlog = noBacklog } = options
  const hub = options.webSocket?.hub
  const metrics =
    options.metrics ??
    createMetrics({ ledger, jobs, poolReports: pools, ...(hub === undefined ? {} : { webSocket: hub }) })
  const events = createEventRoutes({ changes: options.changes ?? ledger, clock, places: options.eventPlaces })
  const overview = createOverview({
    ...{ ledger, backlog, pools, clock },
    orphans: options.orphans ?? noOrphans,
    disk: options.disk,
    complaints: options.complaints,
    configurationDifferences: options.configurationDifferences,
    state: options.state,
  })
  const stopSharing = peers && shareSeries({ series: overview.series, peers, clock })
  const refused = createRefusedRequests({ clock, series: overview.series, all: options.keepsAllRequests })
  const streams = [
    createOverviewStream({ overview, clock }),
    createPoolsStream({ pools: options.poolsView, clock }),
  ]
  let closing = false
  const routes = withDocument(
    [
      ...routeTable(options, metrics, () => closing, overview.series),
      ...backlogRoutes({ backlog, overview, requests: refused, pools, clock, peers }),
      ...streams.flatMap((stream) => stream.routes),
      ...events.routes,
    ],
    options.authenticate !== undefined,
  )
  const authenticate = options.authenticate ?? loopbackIdentity
  const pacer = createHeavyRequestPacer({ clock: options.clock })
  const app = createApp({
    ...config,
    fairnessKeyOf: fairnessKeysOf(routes, authenticate),
    pacer,
    metrics: metrics.http,
    ...(options.unobserved === undefined ? {} : { unobserved: options.unobserved }),
    ...(options.requestLog === undefined ? {} : { requestLog: options.requestLog }),
  })
  if (options.limitHeaders !== undefined) addLimitHeaders(app, options.limitHeaders, authenticate)
  if (options.authenticate === undefined) refuseForeignHosts(app, config.publicUrl)
  addRoutes(app, routes, {
    authenticate,
    bulkhead: createTenantBulkhead(options.clock),
    pacer,
    limits: options.requestLimits ?? createRequestLimits({ ratesOf: () => unlimited }),
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
          connectionCounts: options.webSocket.connectionCounts,
          ...(options.authenticate === undefined ? {} : { authenticate: options.authenticate }),
          clock: options.clock,
          onError: (error) => options.log.error({ event: 'http.error', err: error, route: '/ws' }),
        })
  sockets?.attach(app.server)
  // Streams never end by themselves, and the server would wait for them.
  app.addHook('preClose', async () => {
    events.close()
    for (const stream of streams) stream.close()
    await sockets?.close(config.drainMs)
  })

  return {
    committed: (tookMs) => overview.series.observe('commit', tookMs),
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
        stopSharing?.()
        overview.close()
      }
    },
  }
}

/** The fairness keys of requests without a known tenant: those of open routes, and those whose token is not verified yet. */
const openRequests = Symbol('requests of open routes')
const unverified = Symbol('requests with a token that is not verified yet')

/** Returns the function that gives a request its fairness key (fair-request-scheduler.ts). */
function fairnessKeysOf(
  routes: readonly Route[],
  { tenantOf }: Authenticate,
): FairRequestSchedulerOptions['fairnessKeyOf'] {
  const open = new Set(routes.filter(({ access }) => access === 'open').map(({ path }) => path))
  return (request) => (open.has(request.url!) ? openRequests : (tenantOf?.(request) ?? unverified))
}
