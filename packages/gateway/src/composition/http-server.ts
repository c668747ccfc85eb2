/**
 * Composes the HTTP server, and authentication where keys are configured. Loaded when the server opens: most
 * commands never need it.
 */
import { createMemoryOnce } from '../adapters/one-process.ts'
import { createMemoryRoom } from '../adapters/state/memory-room.ts'
import { type Config, type TenantConfig, tenantOf } from '../config/config.ts'
import { nameFleetSettings } from '../config/fleet-settings.ts'
import { needsSubject, selfAddressed } from '../config/pools.ts'
import { createFleetChanges } from '../http/fleet-changes.ts'
import { createFleetPools } from '../http/fleet-pools.ts'
import type { Authenticate } from '../http/identity.ts'
import type { MetricsServer } from '../http/metrics-server.ts'
import type { RequestKind, RequestLimits } from '../http/request-limits.ts'
import type { PolicyPreview } from '../http/routes/policy-preview.ts'
import type { Replays } from '../http/routes/replays.ts'
import type { HttpServer } from '../http/server.ts'
import type { UnsubscribeLinks } from '../http/unsubscribe.ts'
import type { Retention } from '../ledger/retention.ts'
import { createCommitLog } from '../observability/commit-log.ts'
import {
  type ConfigurationDifferences,
  createConfigurationDifferences,
} from '../observability/configuration-differences.ts'
import { diskUse } from '../observability/disk-use.ts'
import type { Metrics } from '../observability/metrics.ts'
import { createRequestLog, type RequestLog } from '../observability/request-log.ts'
import type { Tokens } from '../ports/tokens.ts'
import type { Templates } from '../ports.ts'
import type { PoolReport, PoolsView, ThrottleUsage } from '../stages.ts'
import type { Admission } from './admission.ts'
import type { Dispatch, Prepared } from './dispatch.ts'
import type { FeedbackParts } from './feedback.ts'
import type { Fleet } from './fleet-parts.ts'
import type { Intakes } from './intake.ts'
import { liveAuthenticate } from './live.ts'
import { createGatewayMetrics } from './metrics.ts'
import { startOperatorLog } from './operator-log.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

/** The parts that the server serves. */
interface Inside {
  readonly record: Storage
  readonly fleet: Fleet | undefined
  readonly admission: Admission
  readonly dispatch: Dispatch
  readonly templates: Templates
  readonly links: UnsubscribeLinks
  readonly feedback: FeedbackParts
  readonly pools: () => readonly PoolReport[]
  readonly policyPreview: PolicyPreview
  readonly replays: Replays
  readonly intakes: Intakes['reports']
  /** Undefined before the stages have started. */
  readonly retention: () => Retention | undefined
}

/** Before the server exists, nothing is measured. */
const untimed = (): void => {}

export function createGatewayServer(context: RuntimeContext) {
  const { config, policy, clock, log } = context
  const onError = context.errorsOf('http')
  let server: HttpServer | undefined
  let metrics: Metrics | undefined
  let requestLog: RequestLog | undefined
  let tokens: Tokens | undefined
  let live: ReturnType<typeof liveAuthenticate> | undefined
  const commitLog = createCommitLog(log, context.storeOutage)
  let metricsServer: MetricsServer | undefined
  let differences: ConfigurationDifferences | undefined
  let stopLines = (): void => {}

  /** Creates authentication with the keys of a configuration; undefined without keys. */
  async function createDoorkeeper({
    auth,
  }: Config): Promise<{ readonly tokens: Tokens; readonly authenticate: Authenticate } | undefined> {
    if (auth === undefined) return undefined
    const [{ createTokens }, { createAuthenticate }] = await Promise.all([
      import('../adapters/tokens/jose.ts'),
      import('../http/authentication.ts'),
    ])
    const onKeysError = (error: unknown): void => onError('the keys of the issuer cannot be fetched', error)
    const tokens = createTokens({ ...auth.jwt, clock, keySet: { onError: onKeysError } })
    return { tokens, authenticate: createAuthenticate({ tokens, claims: auth.claims, clock }) }
  }

  return {
    timeCommit: (writes: number): ((error?: unknown) => void) => {
      const end = context.parts.unobserved?.() === true ? undefined : metrics?.timeCommit(writes)
      if (end === undefined) return untimed
      return (error) => {
        const tookMs = end()
        server?.committed(tookMs)
        commitLog.note(tookMs, writes, error)
      }
    },
    /** Opens the server and resolves with its address. */
    async open(inside: Inside): Promise<string> {
      const [{ createHttpServer }, { createRequestLimits }, { limitHeaders, unknownUsage }, { aheadOf }] =
        await Promise.all([
          import('../http/server.ts'),
          import('../http/request-limits.ts'),
          import('../http/limit-headers.ts'),
          import('../http/wall-time.ts'),
        ])
      const { record, fleet, admission, dispatch, templates, links, pools, policyPreview } = inside
      const { gate, jobs, throttle, erasure } = admission
      const doorkeeper = await createDoorkeeper(config)
      tokens = doorkeeper?.tokens
      live = doorkeeper && liveAuthenticate(doorkeeper.authenticate)
      requestLog = createRequestLog({ log, all: config.log.requests === 'all' })
      const { unobserved } = context.parts
      const heard = unobserved === undefined ? record : heardUnless(unobserved, record)
      metrics = createGatewayMetrics(context, {
        record: heard,
        fleet,
        admission,
        dispatch,
        feedback: inside.feedback.report,
        intakes: inside.intakes,
        pools,
        retention: inside.retention,
      })
      stopLines = startOperatorLog(context, heard)
      const rateOf = (name: RequestKind) =>
        fleet?.state.tenantRate({
          name,
          marginMs: 0,
          counted: (tenant) => requestLimits.counted(name, tenant),
        })
      const together = { reads: rateOf('reads'), writes: rateOf('writes') }
      const requestLimits: RequestLimits = createRequestLimits({
        ratesOf: (tenant) => requestRates(tenantOf(config.tenants, tenant)),
        ...(fleet && { now: clock.now, take: (kind, ...question) => together[kind]!(...question) }),
      })
      const settings = nameFleetSettings(config)
      differences =
        fleet &&
        createConfigurationDifferences({
          peers: fleet.state.peers,
          clock,
          log,
          own: () => ({ policy: policy.part.version, settings }),
        })
      const ownPools: PoolsView = {
        details: () =>
          dispatch.pools.map((pool) => ({
            ...pool.details(clock.now()),
            waiting: admission.queue.size(pool.channel),
          })),
        past: (channel, account) =>
          dispatch.pools
            .filter((pool) => pool.channel === channel)
            .map((pool) => pool.past(account, clock.now()))
            .find((past) => past !== undefined),
      }
      const poolsView =
        fleet === undefined ? ownPools : createFleetPools({ own: ownPools, peers: fleet.state.peers, clock })
      server = createHttpServer({
        ...(live === undefined ? {} : { authenticate: live.part }),
        store: record.store,
        state: record.limits && {
          ping: record.limits.ping,
          keeper: () => record.limits?.keeper?.keeper(),
          away() {
            const { awaySince, reason } = record.limits!.health.counts()
            return awaySince === undefined ? undefined : { ms: clock.monotonic() - awaySince, reason }
          },
          isNeeded: () => policy.part.onStateLost(undefined) === 'refuse',
        },
        deliveryLog: record.deliveryLog?.report,
        outgoing: admission.outgoing?.report,
        intakes: inside.intakes,
        configurationDifferences: differences?.report,
        once: fleet?.state.once ?? createMemoryOnce(),
        ledger: record.ledger,
        peers: fleet?.state.peers,
        ...(fleet && {
          changes: createFleetChanges({ ledger: record.ledger, peers: fleet.state.peers, clock }),
        }),
        recipients: record.recipients,
        backlog: record.backlog,
        holds: record.holds,
        editor: inside.feedback.editor,
        feedback: inside.feedback.feedback,
        webhooks: inside.feedback.webhooks,
        complaints: record.complaints.report,
        policyPreview,
        replays: inside.replays,
        marginMs: config.limits.marginMs,
        orphans: admission.orphans,
        poolsView,
        config: config.http,
        gate,
        erase: erasure.erase,
        jobs,
        metrics,
        ...(unobserved === undefined ? {} : { unobserved }),
        keepsAllRequests: config.log.requests === 'all',
        ...(config.store.kind === 'postgres' || config.store.path === ':memory:'
          ? {}
          : { disk: () => diskUse(config.store.path) }),
        metricsElsewhere: config.metrics.listen !== undefined,
        requestLog,
        policy: policy.part,
        templates,
        links,
        channels: [...new Set(dispatch.pools.map((pool) => pool.channel))],
        selfAddressed: selfAddressed(config.pools),
        needsSubject: needsSubject(config.pools),
        pools,
        clock,
        log,
        webSocket: {
          config: config.webSocket,
          hub: dispatch.hub,
          connectionsMaxOf: (tenant) => tenantOf(config.tenants, tenant).webSocketsMax,
          connectionCounts: fleet?.state.connections ?? createMemoryRoom(),
        },
        requestLimits,
        eventPlaces: fleet?.state.streams,
        limitHeaders: (caller) => {
          const usage = throttle.usage(caller)
          const headers = (rows: readonly ThrottleUsage[]) => limitHeaders(rows, clock.now(), aheadOf(clock))
          if (!(usage instanceof Promise)) return headers(usage)
          const { rate, modules } = tenantOf(config.tenants, caller.tenant)
          return usage.then(headers, () => headers(unknownUsage(rate.windows, modules.windows, clock.now())))
        },
      })
      if (config.metrics.listen !== undefined) {
        const { createMetricsServer } = await import('../http/metrics-server.ts')
        metricsServer = createMetricsServer(metrics, config.metrics.listen)
        log.info({ event: 'metrics.listening', address: await metricsServer.listen() })
      }
      return await server.listen()
    },
    /** Reads the keys that verify tokens anew. */
    async prepare(next: Config): Promise<Prepared> {
      const doorkeeper = await createDoorkeeper(next)
      return {
        discard: async () => doorkeeper?.tokens.close(),
        apply() {
          if (doorkeeper === undefined) return
          tokens?.close()
          tokens = doorkeeper.tokens
          live?.replace(doorkeeper.authenticate)
        },
      }
    },
    async close(): Promise<void> {
      await server?.close()
      await metricsServer?.close()
      requestLog?.close()
      commitLog.close()
      stopLines()
      differences?.close()
      tokens?.close()
    },
  }
}

const requestRates = ({ reads, writes }: TenantConfig) => ({ reads: reads.windows, writes: writes.windows })

/** Lets nothing of the ledger be heard while the gateway is unobserved. */
function heardUnless(unobserved: () => boolean, record: Storage): Storage {
  const { ledger } = record
  return {
    ...record,
    ledger: {
      ...ledger,
      subscribe: (listener) =>
        ledger.subscribe((happening) => {
          if (!unobserved()) listener(happening)
        }),
    },
  }
}
