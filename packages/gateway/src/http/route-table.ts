/** The table of routes: each with the stages and ports that it needs, one by one. */
import type { Metrics } from '../observability/metrics.ts'
import type { Offer } from './draft.ts'
import { createIdempotency } from './idempotency.ts'
import { version } from './openapi.ts'
import type { OverviewSeries } from './overview-series.ts'
import type { Route } from './route.ts'
import { batchRoutes } from './routes/batch.ts'
import { callerRoutes } from './routes/caller.ts'
import { feedbackRoutes } from './routes/feedback.ts'
import { holdRoutes } from './routes/holds.ts'
import { jobRoutes } from './routes/jobs.ts'
import { notificationReadRoutes } from './routes/notification-reads.ts'
import { notificationRoutes } from './routes/notifications.ts'
import { operationRoutes } from './routes/operations.ts'
import { policyRoutes } from './routes/policy.ts'
import { policyPreviewRoutes } from './routes/policy-preview.ts'
import { poolRoutes } from './routes/pools.ts'
import { probeRoutes } from './routes/probes.ts'
import { recipientWindowsRoutes } from './routes/recipient-windows.ts'
import { recipientRoutes } from './routes/recipients.ts'
import { replayRoutes } from './routes/replays.ts'
import { searchRoutes } from './routes/search.ts'
import { unsubscribeRoutes } from './routes/unsubscribe.ts'
import { webSocketRoutes } from './routes/websocket.ts'
import type { HttpServerOptions } from './server-options.ts'
import { createUnsubscribeLimits } from './unsubscribe-limits.ts'

/** @param isClosing tells if the server shuts down */
export function routeTable(
  options: HttpServerOptions,
  metrics: Metrics,
  isClosing: () => boolean,
  series: OverviewSeries,
): readonly Route[] {
  const { config, clock, templates, channels, store, gate, links, recipients } = options
  const { ledger, jobs, policy, pools, holds, erase, editor, feedback, webhooks } = options
  const offer: Offer = {
    templates,
    channels: new Set(channels),
    selfAddressed: options.selfAddressed ?? new Set(),
    needsSubject: options.needsSubject ?? new Set(),
    dataMaxBytes: config.dataMaxBytes,
  }
  const idempotency = createIdempotency({ store, once: options.once, clock })
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
    ...feedbackRoutes({
      feedback,
      webhooks,
      ledger,
      idempotency,
      clock,
      publicUrl: config.publicUrl,
    }),
    ...searchRoutes({ store, ledger, clock }),
    ...callerRoutes({ clock, policy, withKeys: options.authenticate !== undefined, version }),
    ...jobRoutes({ jobs, store, ledger }),
    ...recipientWindowsRoutes({ store, policy, clock, marginMs: options.marginMs ?? 0 }),
    ...recipientRoutes({ gate, store, ledger, editor, clock, erase }),
    ...poolRoutes({ pools: options.poolsView, holds, clock }),
    ...holdRoutes({ holds, clock }),
    ...operationRoutes({ gate, store, ledger, idempotency, clock }),
    ...policyRoutes({ policy, ledger, templates, clock, peers: options.peers }),
    ...policyPreviewRoutes({ preview: options.policyPreview, store, recipients, templates, offer, clock }),
    ...replayRoutes({
      replays: options.replays,
      ledger,
      idempotency,
      templates,
      clock,
      latenessP99Ms: () => series.quantile('late', 0.99),
    }),
    ...probeRoutes({
      store,
      state: options.state,
      deliveryLog: options.deliveryLog,
      outgoing: options.outgoing,
      intakes: options.intakes,
      configurationDifferences: options.configurationDifferences,
      isClosing,
      metrics: options.metricsElsewhere === true ? undefined : metrics,
      pools,
    }),
    ...(links?.urlFor === undefined
      ? []
      : unsubscribeRoutes({
          ...{ links, editor, feedback, store, clock },
          limits: createUnsubscribeLimits(),
        })),
    ...(options.webSocket === undefined ? [] : webSocketRoutes()),
  ]
}
