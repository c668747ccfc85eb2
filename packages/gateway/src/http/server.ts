/**
 * The HTTP server of the gateway. A request passes, in this order, the limits of size and time, the one before
 * it on its connection (pipelines.ts), the fair request scheduler (fair-request-scheduler.ts), authentication,
 * the parser (json.ts), the schema (validation.ts), the bulkhead of its tenant (tenant-bulkhead.ts), and its
 * handler in routes/; every error on the way leaves as a problem (problem.ts).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { createMetrics, type Metrics } from '../observability/metrics.ts'
import { createApp } from './app.ts'
import type { Offer } from './draft.ts'
import { answerTheRest } from './error-handler.ts'
import type { FairRequestSchedulerOptions } from './fair-request-scheduler.ts'
import { createHeavyRequestPacer } from './heavy-request-pacer.ts'
import { createIdempotency } from './idempotency.ts'
import { type Authenticate, loopbackIdentity, refuseForeignHosts } from './identity.ts'
import { addLimitHeaders } from './limit-headers-hook.ts'
import { version, withDocument } from './openapi.ts'
import { createOverview, noBacklog, noOrphans } from './overview.ts'
import type { OverviewSeries } from './overview-series.ts'
import { createRecipientEditor } from './recipient-editor.ts'
import { createRefusedRequests } from './refused-requests.ts'
import { createRequestLimits, type RequestRates } from './request-limits.ts'
import type { Route } from './route.ts'
import { backlogRoutes } from './routes/backlog.ts'
import { batchRoutes } from './routes/batch.ts'
import { callerRoutes } from './routes/caller.ts'
import { createEventRoutes } from './routes/events.ts'
import { holdRoutes } from './routes/holds.ts'
import { jobRoutes } from './routes/jobs.ts'
import { notificationReadRoutes } from './routes/notification-reads.ts'
import { notificationRoutes } from './routes/notifications.ts'
import { operationRoutes } from './routes/operations.ts'
import { createOverviewStream } from './routes/overview-stream.ts'
import { policyRoutes } from './routes/policy.ts'
import { policyPreviewRoutes } from './routes/policy-preview.ts'
import { poolRoutes } from './routes/pools.ts'
import { createPoolsStream } from './routes/pools-stream.ts'
import { probeRoutes } from './routes/probes.ts'
import { recipientWindowsRoutes } from './routes/recipient-windows.ts'
import { recipientRoutes } from './routes/recipients.ts'
import { searchRoutes } from './routes/search.ts'
import { unsubscribeRoutes } from './routes/unsubscribe.ts'
import { webSocketRoutes } from './routes/websocket.ts'
import { addRoutes } from './routing.ts'
import type { HttpServerOptions } from './server-options.ts'
import { createTenantBulkhead } from './tenant-bulkhead.ts'
import { createUnsubscribeLimits } from './unsubscribe-limits.ts'
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
  const { ledger, jobs, pools, clock, backlog = noBacklog } = options
  const hub = options.webSocket?.hub
  const metrics =
    options.metrics ??
    createMetrics({ ledger, jobs, poolReports: pools, ...(hub === undefined ? {} : { webSocket: hub }) })
  const events = createEventRoutes({ ledger, clock })
  const { orphans = noOrphans, disk } = options
  const overview = createOverview({ ledger, backlog, pools, clock, orphans, disk })
  const refused = createRefusedRequests({ clock, series: overview.series, all: options.keepsAllRequests })
  const streams = [
    createOverviewStream({ overview, clock }),
    createPoolsStream({ pools: options.poolsView, clock }),
  ]
  let closing = false
  const routes = withDocument(
    [
      ...routesOf(options, metrics, () => closing, overview.series),
      ...backlogRoutes({ backlog, overview, requests: refused, pools, clock }),
      ...streams.flatMap((stream) => stream.routes),
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
    ...(options.unobserved === undefined ? {} : { unobserved: options.unobserved }),
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
  const { ledger, jobs, policy, pools, holds, erase } = options
  const offer: Offer = {
    templates,
    channels: new Set(channels),
    selfAddressed: options.selfAddressed ?? new Set(),
    needsSubject: options.needsSubject ?? new Set(),
    dataMaxBytes: config.dataMaxBytes,
  }
  const idempotency = createIdempotency({ store, once: options.once, clock })
  const editor = createRecipientEditor({ gate, store })
  const onAccepted = (tookMs: number): void => {
    metrics.onAccepted(tookMs)
    series.observe('accept', tookMs)
  }
  return [
    ...notificationRoutes({
      gate,
      recipients,
      clock,
      offer,
      idempotency,
      overLimitStatus: config.overLimitStatus,
      onAccepted,
    }),
    ...notificationReadRoutes({ gate, store, ledger, policy, pools, holds, clock }),
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
    ...recipientWindowsRoutes({ store, policy, clock, marginMs: options.marginMs ?? 0 }),
    ...recipientRoutes({ gate, store, ledger, editor, clock, erase }),
    ...poolRoutes({ pools: options.poolsView, holds, clock }),
    ...holdRoutes({ holds, clock }),
    ...operationRoutes({ gate, store, ledger, idempotency, clock }),
    ...policyRoutes({ policy, ledger, templates, clock }),
    ...policyPreviewRoutes({ preview: options.policyPreview, store, recipients, templates, offer, clock }),
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
