/** The options of the HTTP server: its configuration, and the stages and ports that its routes call. */
import type { BacklogReports } from '../backlog-cell.ts'
import type { Feedback } from '../feedback/feedback.ts'
import type { Webhooks } from '../feedback/webhooks.ts'
import type { Channel } from '../model.ts'
import type { DiskUse, Metrics } from '../observability/metrics.ts'
import type { RequestLog } from '../observability/request-log.ts'
import type { Policy } from '../policy/policy.ts'
import type { Once, Peers } from '../ports/fleet.ts'
import type { RoomState } from '../ports/tenants.ts'
import type { Clock, Store, Templates } from '../ports.ts'
import type { ComplaintReport, IntakeReport } from '../reports.ts'
import type { Gate, Jobs, Ledger, OperatorHolds, PoolReport, PoolsView, Recipients } from '../stages.ts'
import type { ErrorLog } from './error-handler.ts'
import type { ChangeFeed } from './fleet-changes.ts'
import type { Authenticate } from './identity.ts'
import type { LimitHeaders } from './limit-headers-hook.ts'
import type { RecipientEditor } from './recipient-editor.ts'
import type { RequestLimits } from './request-limits.ts'
import type { PolicyPreview } from './routes/policy-preview.ts'
import type { ProbedState } from './routes/probes.ts'
import type { Replays } from './routes/replays.ts'
import type { UnsubscribeLinks } from './unsubscribe.ts'
import type { WebSocketHub } from './websocket/hub.ts'
import type { WebSocketBounds } from './websocket/upgrade.ts'

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

export interface HttpServerOptions {
  readonly config: HttpServerConfig
  readonly gate: Gate
  /** Erases a recipient from every record. */
  readonly erase: (tenant: string, recipient: string) => Promise<void>
  readonly jobs: Jobs
  readonly store: Store
  /** Limiter state on a server, for readiness; absent where it is in memory. */
  readonly state?: ProbedState | undefined
  /** The broker in front of the queue, for readiness; absent where there is none. */
  readonly outgoing?: (() => { readonly awaySince: number | undefined }) | undefined
  /** The delivery log, for readiness; absent where the timeline is kept in the store alone. */
  readonly deliveryLog?: (() => { readonly awaySince: number | undefined }) | undefined
  /** A sentence for each gateway over the same record that has another configuration. @defaultValue none */
  readonly configurationDifferences?: (() => readonly string[]) | undefined
  /** Topics whose records are taken, for readiness. @defaultValue none */
  readonly intakes?: (() => readonly IntakeReport[]) | undefined
  /** Knows the requests with an Idempotency-Key that are in progress. */
  readonly once: Once
  readonly ledger: Ledger
  /** Changes recipients one after the other. */
  readonly editor: RecipientEditor
  readonly feedback: Pick<Feedback, 'report'>
  readonly webhooks: Pick<Webhooks, 'take'>
  readonly policy: Policy
  readonly templates: Pick<Templates, 'has' | 'hasSubject'>
  readonly recipients: Pick<Recipients, 'find' | 'findAll' | 'forget'>
  /** Channels that a pool serves. */
  readonly channels: readonly Channel[]
  /** Channels on which the accounts have a fixed address. @defaultValue none */
  readonly selfAddressed?: ReadonlySet<Channel>
  /** Channels with a provider that requires a subject. @defaultValue none */
  readonly needsSubject?: ReadonlySet<Channel>
  readonly pools: () => readonly PoolReport[]
  readonly poolsView: PoolsView
  readonly holds: OperatorHolds
  /** The categories of tenants whose complaints are counted. @defaultValue none */
  readonly complaints?: (() => readonly ComplaintReport[]) | undefined
  readonly policyPreview: PolicyPreview
  readonly replays: Replays
  /** Windows are kept this much longer than written, ms. @defaultValue 0 */
  readonly marginMs?: number
  /** @defaultValue metrics of the ledger, the jobs and the pools alone */
  readonly metrics?: Metrics
  /** True leaves requests unmeasured, for the benchmark of that cost. @defaultValue always false */
  readonly unobserved?: () => boolean
  /** True keeps every request for `GET /requests`, not only those that were refused or failed. @defaultValue false */
  readonly keepsAllRequests?: boolean
  /** The space that the store takes on its disk. @defaultValue it is not known */
  readonly disk?: () => DiskUse | undefined
  /** True where the metrics are served on a port of their own. @defaultValue false */
  readonly metricsElsewhere?: boolean
  /** Counts of what waits. @defaultValue nothing waits */
  readonly backlog?: BacklogReports
  /** Items of digests that no open digest collects. @defaultValue none */
  readonly orphans?: { count(): number }
  readonly links?: UnsubscribeLinks
  readonly clock: Clock
  readonly log: ErrorLog
  /** @defaultValue requests have no lines */
  readonly requestLog?: RequestLog
  /**
   * Authenticates callers. @defaultValue every caller is accepted, as tenant and module `default` or as the
   * headers name
   */
  readonly authenticate?: Authenticate
  /** Rate limits of a tenant's requests that send nothing. @defaultValue unlimited */
  readonly requestLimits?: RequestLimits
  /** Counts the event streams of each tenant over several processes, as what waits. @defaultValue this one alone has them */
  readonly eventPlaces?: Pick<RoomState, 'take'> | undefined
  /** The other processes of a fleet, whose counters are in the answers to operators. @defaultValue there are none */
  readonly peers?: Pick<Peers, 'ask' | 'answer' | 'tell' | 'listen'> | undefined
  /** The changes that event streams show. @defaultValue those of the ledger */
  readonly changes?: ChangeFeed
  /** Rate limit headers of every answer about notifications. @defaultValue none */
  readonly limitHeaders?: LimitHeaders
  /** @defaultValue there is no WebSocket */
  readonly webSocket?: WebSocketOptions
}

interface WebSocketOptions {
  readonly config: WebSocketBounds
  readonly hub: WebSocketHub
  /** Connections of one tenant at most. */
  readonly connectionsMaxOf: (tenant: string) => number
  /** Counts the connections of each tenant, as what waits. */
  readonly connectionCounts: Pick<RoomState, 'take'>
}
