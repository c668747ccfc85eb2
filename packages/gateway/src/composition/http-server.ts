/**
 * Composes the HTTP server, and authentication where keys are configured. Loaded when the server opens: most
 * commands never need it.
 */
import { type TenantConfig, tenantOf } from '../config/config.ts'
import { needsSubject, selfAddressed } from '../config/pools.ts'
import type { Authenticate } from '../http/identity.ts'
import type { HttpServer } from '../http/server.ts'
import type { UnsubscribeLinks } from '../http/unsubscribe.ts'
import type { Metrics } from '../observability/metrics.ts'
import type { Templates, Tokens } from '../ports.ts'
import type { PoolReport, ThrottleUsage } from '../stages.ts'
import type { Admission } from './admission.ts'
import type { Dispatch } from './dispatch.ts'
import { createGatewayMetrics } from './metrics.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

/** The parts that the server serves. */
interface Inside {
  readonly record: Storage
  readonly admission: Admission
  readonly dispatch: Dispatch
  readonly templates: Templates
  readonly links: UnsubscribeLinks
  readonly pools: () => readonly PoolReport[]
}

/** Before the server exists, nothing is measured. */
const untimed = (): void => {}

export function createGatewayServer(context: RuntimeContext) {
  const { config, clock, log } = context
  const onError = context.errorsOf('http')
  let server: HttpServer | undefined
  let metrics: Metrics | undefined
  let tokens: Tokens | undefined

  /** Creates authentication; undefined without keys. */
  async function createDoorkeeper(): Promise<Authenticate | undefined> {
    const { auth } = config
    if (auth === undefined) return undefined
    const [{ createTokens }, { createAuthenticate }] = await Promise.all([
      import('../adapters/tokens/jose.ts'),
      import('../http/authentication.ts'),
    ])
    const onKeysError = (error: unknown): void => onError('the keys of the issuer cannot be fetched', error)
    tokens = createTokens({ ...auth.jwt, clock, keySet: { onError: onKeysError } })
    return createAuthenticate({ tokens, claims: auth.claims, clock })
  }

  return {
    timeCommit: (writes: number): (() => void) => metrics?.timeCommit(writes) ?? untimed,
    /** Opens the server and resolves with its address. */
    async open({ record, admission, dispatch, templates, links, pools }: Inside): Promise<string> {
      const [{ createHttpServer }, { limitHeaders }, { aheadOf }] = await Promise.all([
        import('../http/server.ts'),
        import('../http/limit-headers.ts'),
        import('../http/wall-time.ts'),
      ])
      const { gate, jobs, throttle, erasure } = admission
      const authenticate = await createDoorkeeper()
      metrics = await createGatewayMetrics(context, { record, admission, dispatch, pools })
      server = createHttpServer({
        ...(authenticate === undefined ? {} : { authenticate }),
        store: record.store,
        ledger: record.ledger,
        recipients: record.recipients,
        config: config.http,
        gate,
        erase: erasure.erase,
        jobs,
        metrics,
        policy: config.policy.compiled,
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
        },
        requestRatesOf: (tenant) => requestRates(tenantOf(config.tenants, tenant)),
        limitHeaders: (caller) => {
          const usage = throttle.usage(caller)
          const headers = (rows: readonly ThrottleUsage[]) => limitHeaders(rows, clock.now(), aheadOf(clock))
          return usage instanceof Promise ? usage.then(headers) : headers(usage)
        },
      })
      return await server.listen()
    },
    async close(): Promise<void> {
      await server?.close()
      tokens?.close()
    },
  }
}

const requestRates = ({ reads, writes }: TenantConfig) => ({ reads: reads.windows, writes: writes.windows })
