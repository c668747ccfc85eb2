/**
 * The configuration after every default is filled in; read once, at start. Durations are milliseconds, rates
 * are windows, paths are absolute, secrets are read; nothing in here still has to be parsed. The keys of the
 * file are in schema.ts, and loadConfig turns them into this.
 */
import type { KeyObject } from 'node:crypto'
import type { BreakerPolicy } from '../delivery/accounts/breaker.ts'
import type { RetryPolicy } from '../delivery/retry-policy.ts'
import type { WebSocketBounds } from '../http/websocket/upgrade.ts'
import type { Channel } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Account } from '../ports.ts'
import type { ProviderName } from '../providers/configs.ts'
import type { JwtAlgorithm } from './auth-schema.ts'
import type { FeedbackConfig } from './feedback.ts'
import type { IntakeConfig } from './intake.ts'
import type { Rate } from './quantity.ts'

export interface Config {
  /** The file it was read from; absent without one. */
  readonly file: string | undefined
  readonly http: HttpConfig
  /** Authentication. Absent: no keys, and every client of this machine is trusted. */
  readonly auth: AuthConfig | undefined
  readonly store: StoreConfig
  readonly state: StateConfig
  readonly queue: QueueConfig
  /** Topics whose records are taken as notifications. @defaultValue none */
  readonly intake: readonly IntakeConfig[]
  readonly deliveryLog: DeliveryLogConfig
  readonly policy: PolicyConfig
  /** The operator's folder of templates, which override the built-in ones. */
  readonly templates: string | undefined
  readonly tenants: TenantsConfig
  readonly webSocket: WebSocketConfig
  /** One pool for each served channel, in the order of model.ts. */
  readonly pools: readonly PoolConfig[]
  readonly limits: LimitsConfig
  readonly network: NetworkConfig
  /** The webhook for alerts of failing accounts; absent: alerts go to the log alone. */
  readonly alerts: AlertsConfig | undefined
  readonly unsubscribe: UnsubscribeConfig
  readonly retention: RetentionConfig
  readonly log: LogConfig
  readonly metrics: MetricsConfig
}

export interface HttpConfig {
  /** The address to listen on; without keys it must be a loopback address. @defaultValue 127.0.0.1 */
  readonly host: string
  /** 0 takes any free port. @defaultValue 8080 */
  readonly port: number
  /**
   * The public https address of this gateway, without a slash at its end; needed for one-click unsubscribing.
   */
  readonly publicUrl: string | undefined
  /**
   * Deadline of a graceful shutdown: sends in flight settle, then the process exits. @defaultValue 30_000 ms
   */
  readonly drainMs: number
  /** How long `/readyz` answers 503 on SIGTERM before the listener closes. @defaultValue 0 ms */
  readonly drainDelayMs: number
  /** The status of a request that was queued because of a tenant or module limit. @defaultValue 429 */
  readonly overLimitStatus: 429 | 202
  /** Deadline for the arrival of a whole request. @defaultValue 10_000 ms */
  readonly requestTimeoutMs: number
  /** Open connections at most; further ones are dropped. @defaultValue 10_000 */
  readonly connectionsMax: number
  /** @defaultValue 1_048_576 bytes */
  readonly bodyMaxBytes: number
  /** Bytes of the body of a batch at most. @defaultValue 8_388_608 bytes */
  readonly batchBodyMaxBytes: number
  /** Bytes of `data` at most, as JSON. @defaultValue 65_536 bytes */
  readonly dataMaxBytes: number
}

export interface AuthConfig {
  readonly jwt: JwtConfig
  /** The names of the claims; `a.b` is also the `b` inside of `a`. */
  readonly claims: { readonly tenant: string; readonly module: string; readonly scope: string }
}

interface JwtConfig {
  readonly keys: JwtKeys
  readonly issuer: string
  readonly audience: string
  /**
   * The accepted algorithms, at least one, each of which fits the keys. @defaultValue those that the keys are
   * for
   */
  readonly algorithms: readonly JwtAlgorithm[]
}

/** A public key, and the one algorithm for which it is used. */
export interface PublicKey {
  readonly algorithm: JwtAlgorithm
  readonly key: KeyObject
}

/** Several keys while keys are rotated. */
export type JwtKeys =
  | { readonly kind: 'secrets'; readonly secrets: readonly string[] }
  | { readonly kind: 'public'; readonly file: string; readonly keys: readonly PublicKey[] }
  | { readonly kind: 'jwks'; readonly url: string }

export interface StoreConfig {
  readonly kind: 'sqlite' | 'postgres'
  /**
   * An absolute path, or `:memory:`; of PostgreSQL the address without its password.
   * @defaultValue ./data/sluice.db in the working folder
   */
  readonly path: string
  /** Where PostgreSQL is; absent for a file. */
  readonly postgres?: PostgresConfig
}

export interface PostgresConfig {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password?: string
  readonly database: string
  /** The schema of the tables. @defaultValue sluice */
  readonly schema: string
  /** False: no TLS. */
  readonly ssl:
    | false
    | {
        readonly ca?: string
        readonly cert?: string
        readonly key?: string
        readonly rejectUnauthorized: boolean
        readonly checkServerIdentity?: () => undefined
      }
  /** The address without the password. */
  readonly shown: string
}

/** Where notifications wait for a provider. @defaultValue in the process */
export type QueueConfig = { readonly kind: 'embedded' } | RabbitmqConfig

export interface RabbitmqConfig {
  readonly kind: 'amqp'
  /** Host and port of each node. */
  readonly nodes: readonly string[]
  readonly user: string
  readonly password: string
  readonly vhost: string
  /** Certificates in PEM beside the authorities of the system; absent: no TLS. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  /** The address without the password. */
  readonly shown: string
}

/** Where the limits count. @defaultValue in the memory of the process */
export type StateConfig = { readonly kind: 'memory' } | RedisStateConfig

/** Limiter state that several gateways share in Redis. */
export interface RedisStateConfig {
  readonly kind: 'redis'
  /** The address with its credentials, without options. */
  readonly url: string
  /** Host and port of the server, or of nodes of the cluster. */
  readonly nodes: readonly string[]
  readonly isCluster: boolean
  readonly user?: string
  readonly password?: string
  /** Certificates in PEM beside the authorities of the system; absent: no TLS. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  /** Precedes every key. @defaultValue sl: */
  readonly prefix: string
  /** The longest wait for an answer before the declared behaviour holds. @defaultValue 50 ms */
  readonly deadlineMs: number
  /** The width of a slot of the accounts, ms (ports/account-slots.ts). @defaultValue 20 ms */
  readonly slotMs: number
  /** The address without the password. */
  readonly shown: string
}

/** Where changes of state are kept. @defaultValue in the store alone */
export type DeliveryLogConfig = { readonly kind: 'store' } | CassandraConfig

/** A delivery log in Cassandra, beside the timelines of the store. */
export interface CassandraConfig {
  readonly kind: 'cassandra'
  /** Host and port of nodes of the cluster; the others are found by them. */
  readonly nodes: readonly string[]
  readonly keyspace: string
  /** The data centre whose nodes are asked. @defaultValue all nodes in turn */
  readonly dataCentre?: string
  readonly user?: string
  readonly password?: string
  /** Certificates in PEM beside the authorities of the system; absent: no TLS. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  /** Replicas in each data centre of a keyspace that is made. @defaultValue 3, or the number of nodes where it is less */
  readonly replication?: number
  /** The address without the password. */
  readonly shown: string
}

export interface PolicyConfig {
  /** The file that the policy was read from. */
  readonly file: string
  /** True for the policy that ships with the product. */
  readonly builtIn: boolean
  readonly compiled: Policy
}

export interface TenantConfig {
  /** The rate limit of all modules of the tenant together. @defaultValue 100/min */
  readonly rate: Rate
  /** The rate limit of each module. @defaultValue 50/min */
  readonly modules: Rate
  /**
   * Notifications at most that are queued, wait for a tenant or module limit, or are dead letters for want of
   * capacity. @defaultValue 10_000
   */
  readonly queueMax: number
  /**
   * Notifications at most that are scheduled, in quiet hours, in an open digest, or wait for a recipient limit.
   * @defaultValue 1_000_000
   */
  readonly waitingMax: number
  /** The rate limit of lists, timelines and searches; above it 429. @defaultValue 100/s */
  readonly reads: Rate
  /** The rate limit of requests that change something and send nothing; above it 429. @defaultValue 1000/s */
  readonly writes: Rate
  /**
   * Bytes of the stored content of waiting notifications at most; the content of a batch counts once.
   * @defaultValue 1_073_741_824 bytes
   */
  readonly bytesMax: number
  /** The tenant's share of sending, against the others'. @defaultValue 1 */
  readonly weight: number
  /** The rate limit of messages that the tenant publishes over its WebSockets. @defaultValue 200/s */
  readonly webSocketRate: Rate
  /** The tenant's open WebSockets at most. @defaultValue 1_000 */
  readonly webSocketsMax: number
}

export interface TenantsConfig {
  /** The limits of every tenant without an entry of its own. */
  readonly default: TenantConfig
  /** Complete entries: fields that an entry leaves out were taken from the default. */
  readonly byId: ReadonlyMap<string, TenantConfig>
}

export interface WebSocketConfig extends WebSocketBounds {
  readonly absent: AbsentConfig
}

/** The rule for notifications of the channel `websocket` to an offline recipient. */
export interface AbsentConfig {
  /** @defaultValue wait */
  readonly default: AbsentRule
  readonly byCategory: ReadonlyMap<string, AbsentRule>
  /**
   * A notification waits at most this long for the recipient to connect; then it ends as expired. @defaultValue
   * 86_400_000 ms
   */
  readonly waitMaxMs: number
}

export type AbsentRule =
  | { readonly kind: 'wait' | 'drop' }
  | { readonly kind: 'fallback'; readonly channel: Channel }

export interface PoolConfig {
  readonly channel: Channel
  readonly provider: ProviderName
  /** At least one. */
  readonly accounts: readonly AccountConfig[]
  /** Timeout of one call to the provider. @defaultValue 15_000 ms */
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  readonly breaker: BreakerPolicy
  /** Load shedding: the pool admits less while accounts are out. @defaultValue true */
  readonly shedding: boolean
  /**
   * While shedding, a notification that cannot be sent waits this long until it is a dead letter. @defaultValue
   * 5_000 ms
   */
  readonly shedAfterMs: number
  /**
   * The share of each account's concurrency that is kept for `critical` while critical notifications wait.
   * @defaultValue 0.1
   */
  readonly criticalShare: number
  /**
   * Adaptive concurrency: fewer parallel calls while an account is slow; absent: always as many as configured.
   */
  readonly adaptive: AdaptiveConfig | undefined
}

export interface AdaptiveConfig {
  /** The least parallel calls. @defaultValue 1 */
  readonly min: number
  /** A call is slow above this multiple of the usual 99th percentile. @defaultValue 2 */
  readonly slowdown: number
}

export interface AlertsConfig {
  readonly url: string
  readonly secret: string | undefined
}

export interface AccountConfig {
  /** The account's id, url and secret; `options` holds what only its provider understands. */
  readonly account: Account
  readonly rate: Rate
  /** Parallel calls at most. */
  readonly concurrencyMax: number
  /** Each window of its rate is extended by this. @defaultValue that of `limits` */
  readonly marginMs?: number
  /** The webhooks by which its provider reports what became of its messages. */
  readonly feedback?: FeedbackConfig
}

interface LimitsConfig {
  /**
   * Each window of a recipient or account is extended by this, because sends bunch on the way. @defaultValue 20
   * ms
   */
  readonly marginMs: number
}

export interface NetworkConfig {
  /** True where addresses in requests may lead into private networks. @defaultValue false */
  readonly allowPrivate: boolean
  /** The proxies through which providers are called over HTTP. Absent: no proxy. */
  readonly proxy?: ProxyConfig
  /** Certificate authorities that are trusted besides the machine's. */
  readonly ca?: { readonly file: string; readonly pem: readonly string[] }
}

export interface ProxyConfig {
  /** Proxies for addresses that begin with http and https; either may be absent. */
  readonly http?: string
  readonly https?: string
  /** Hosts that are called without the proxy. */
  readonly bypass: readonly string[]
  /** True where the proxy is configured in the file and not by the environment. */
  readonly isWritten: boolean
}

interface UnsubscribeConfig {
  /** Signs the unsubscribe links. Absent: the key in `keyFile` signs, which is made when it is first needed. */
  readonly secret: string | undefined
  /**
   * The file stands beside the database; absent with a store in memory, where a key lasts as long as the
   * process.
   */
  readonly keyFile: string | undefined
}

export interface RetentionConfig {
  /** The answer to an Idempotency-Key is kept this long. @defaultValue 86_400_000 ms */
  readonly answersMs: number
  /**
   * Ended notifications are kept this long; not shorter than any window they count in. @defaultValue
   * 2_678_400_000 ms
   */
  readonly notificationsMs: number
  /** Entries of a delivery log outside of the store are kept this long. @defaultValue 31_536_000_000 ms */
  readonly deliveryLogMs: number
}

export interface LogConfig {
  /** @defaultValue info */
  readonly level: LogLevel
  /** Absent: text where standard error is a terminal, JSON elsewhere. */
  readonly format?: 'json' | 'text'
  /** How a line names a recipient: by a keyed hash, by the id, or not at all. @defaultValue hash */
  readonly recipient?: 'hash' | 'plain' | 'none'
  /** The file of the key for that hash; absent with a store in memory, where it lasts as long as the process. */
  readonly keyFile?: string
  /** True adds the process id and the name of the machine to each line. @defaultValue false */
  readonly host?: boolean
  /** Requests with a line at info: those that fail or are slow, or all. @defaultValue failed */
  readonly requests?: 'failed' | 'all'
  /** Levels of events by the part before their dot, such as `http`. @defaultValue the level of all */
  readonly levels?: Readonly<Record<string, LogLevel>>
}

export interface MetricsConfig {
  /** True serves metrics of each account at /metrics/accounts. @defaultValue false */
  readonly accounts: boolean
  /** Serves metrics of this many tenants with the most notifications at /metrics/tenants. Absent: of none. */
  readonly tenantsTop: number | undefined
  /** An address of their own for all metrics; absent: they are served beside the API. */
  readonly listen: { readonly host: string; readonly port: number } | undefined
}

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** The limits of a tenant: its own entry or the default. */
export function tenantOf(tenants: TenantsConfig, id: string): TenantConfig {
  return tenants.byId.get(id) ?? tenants.default
}
