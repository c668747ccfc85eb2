/**
 * What the gateway is told, once and at start: the configuration after every default is filled in. Durations are
 * milliseconds, rates are windows, paths are absolute, secrets are read; nothing in here still has to be parsed.
 * The keys of the file that it comes from are in schema.ts, and loadConfig makes the one out of the other.
 */
import type { KeyObject } from 'node:crypto'
import type { Channel } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Account } from '../ports.ts'
import type { ProviderName } from '../providers/configs.ts'
import type { JwtAlgorithm } from './auth-schema.ts'
import type { Rate } from './quantity.ts'

export interface Config {
  /** The file it was read from; absent where there was none. */
  readonly file: string | undefined
  readonly http: HttpConfig
  /** Absent: no keys, and everybody on this machine is let in. */
  readonly auth: AuthConfig | undefined
  readonly store: StoreConfig
  readonly state: { readonly kind: 'memory' }
  readonly queue: { readonly kind: 'embedded' }
  readonly deliveryLog: { readonly kind: 'store' }
  readonly policy: PolicyConfig
  /** The operator's folder of templates, which come before the built-in ones. */
  readonly templates: string | undefined
  readonly tenants: TenantsConfig
  readonly webSocket: WebSocketConfig
  /** One for each channel that is served, in the order of model.ts. */
  readonly pools: readonly PoolConfig[]
  readonly limits: LimitsConfig
  readonly network: NetworkConfig
  /** Who is told of accounts that fail; absent: the log alone. */
  readonly alerts: AlertsConfig | undefined
  readonly unsubscribe: UnsubscribeConfig
  readonly retention: RetentionConfig
  readonly log: { readonly level: LogLevel }
}

export interface HttpConfig {
  /** Without keys a loopback address. @defaultValue 127.0.0.1 */
  readonly host: string
  /** 0 takes any free port. @defaultValue 8080 */
  readonly port: number
  /** Where the world reaches this gateway over https, without a slash at its end; needed for one-click unsubscribing. */
  readonly publicUrl: string | undefined
  /** How long a stop may take: what is in flight settles, then the process ends. @defaultValue 30_000 ms */
  readonly drainMs: number
  /** How long `/readyz` answers 503 on SIGTERM before the listener closes. @defaultValue 0 ms */
  readonly drainDelayMs: number
  /** The answer for what was queued behind a tenant or module limit. @defaultValue 429 */
  readonly overLimitStatus: 429 | 202
  /** By when a whole request must have arrived. @defaultValue 10_000 ms */
  readonly requestTimeoutMs: number
  /** Open at once; above it new ones are dropped. @defaultValue 10_000 */
  readonly connectionsMax: number
  /** @defaultValue 1_048_576 bytes */
  readonly bodyMaxBytes: number
  /** Of a batch. @defaultValue 8_388_608 bytes */
  readonly batchBodyMaxBytes: number
  /** Of `data`, as JSON. @defaultValue 65_536 bytes */
  readonly dataMaxBytes: number
}

export interface AuthConfig {
  readonly jwt: JwtConfig
  /** What claims are called; `a.b` is also the `b` inside of `a`. */
  readonly claims: { readonly tenant: string; readonly module: string; readonly scope: string }
}

export interface JwtConfig {
  readonly keys: JwtKeys
  readonly issuer: string
  readonly audience: string
  /** At least one, each of which goes with the keys. @defaultValue those that the keys are for */
  readonly algorithms: readonly JwtAlgorithm[]
}

/** Used for nothing but its algorithm. */
export interface PublicKey {
  readonly algorithm: JwtAlgorithm
  readonly key: KeyObject
}

/** Several where keys are changing. */
export type JwtKeys =
  | { readonly kind: 'secrets'; readonly secrets: readonly string[] }
  | { readonly kind: 'public'; readonly file: string; readonly keys: readonly PublicKey[] }
  | { readonly kind: 'jwks'; readonly url: string }

export interface StoreConfig {
  readonly kind: 'sqlite'
  /** An absolute path, or `:memory:`. @defaultValue ./data/sluice.db in the working folder */
  readonly path: string
}

export interface PolicyConfig {
  /** The file it was read from. */
  readonly file: string
  /** Whether that is the policy that ships with the product. */
  readonly builtIn: boolean
  readonly compiled: Policy
}

export interface TenantConfig {
  /** For all modules of the tenant together. @defaultValue 100/min */
  readonly rate: Rate
  /** For each module. @defaultValue 50/min */
  readonly modules: Rate
  /** Places for what is queued, waits for a platform limit, or is dead for want of capacity. @defaultValue 10_000 */
  readonly queueMax: number
  /** Places for what is scheduled, in quiet hours, collecting or waits for a recipient limit. @defaultValue 1_000_000 */
  readonly waitingMax: number
  /** Lists, timelines and searches that its callers ask for; above it 429. @defaultValue 100/s */
  readonly reads: Rate
  /** Requests that change something and send nothing; above it 429. @defaultValue 1000/s */
  readonly writes: Rate
  /** The content of what waits, as it is stored: that of a batch once. @defaultValue 1_073_741_824 bytes */
  readonly bytesMax: number
  /** Its share of the sending, against the others'. @defaultValue 1 */
  readonly weight: number
  /** What it publishes over its WebSockets. @defaultValue 200/s */
  readonly webSocketRate: Rate
  /** Its WebSockets. @defaultValue 1_000 */
  readonly webSocketsMax: number
}

export interface TenantsConfig {
  /** For every tenant without an entry of its own. */
  readonly default: TenantConfig
  /** Complete: what an entry leaves out was taken from the default. */
  readonly byId: ReadonlyMap<string, TenantConfig>
}

export interface WebSocketConfig {
  /** Of one frame or message of a client. @defaultValue 65_536 bytes */
  readonly messageMaxBytes: number
  /** Of one connection. @defaultValue 50 */
  readonly subscriptionsMax: number
  /** That one connection may send; what is above is read later. @defaultValue 1_000 */
  readonly framesPerSecond: number
  /** Published messages of one tenant that wait for its rate. @defaultValue 1_000 */
  readonly waitingMax: number
  /** What may wait for a client that does not read. @defaultValue 1_048_576 bytes */
  readonly unreadMaxBytes: number
  /** Between two signs of life; a peer that answers none is cut off at the next. @defaultValue 30_000 ms */
  readonly heartbeatMs: number
  /** Of all tenants together. @defaultValue 8_000 */
  readonly connectionsMax: number
  readonly absent: AbsentConfig
}

/** What becomes of a notification of the channel `websocket` for somebody who is not connected. */
export interface AbsentConfig {
  /** @defaultValue wait */
  readonly default: AbsentRule
  readonly byCategory: ReadonlyMap<string, AbsentRule>
  /** How long it waits at most for the recipient to connect; then it ends as expired. @defaultValue 86_400_000 ms */
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
  /** How long one call to the provider may take. @defaultValue 15_000 ms */
  readonly timeoutMs: number
  readonly retry: RetryConfig
  readonly breaker: BreakerConfig
  /** Whether a pool admits less while accounts are out. @defaultValue true */
  readonly shedding: boolean
  /** How long what cannot leave then waits until it is a dead letter. @defaultValue 5_000 ms */
  readonly shedAfterMs: number
  /** The share of each account's places kept for `critical` while there are any. @defaultValue 0.1 */
  readonly criticalShare: number
  /** Fewer calls at once while an account is slow; absent: always as many as configured. */
  readonly adaptive: AdaptiveConfig | undefined
}

export interface BreakerConfig {
  /** The share of failed calls that opens it. @defaultValue 0.5 */
  readonly failures: number
  /** Calls within the window before their share counts. @defaultValue 10 */
  readonly of: number
  /** @defaultValue 10_000 ms */
  readonly withinMs: number
  /** Failed calls one after the other that open it, however long they took. @defaultValue 10 */
  readonly inARow: number
  /** How long it stays open the first time; doubles with each failed probe. @defaultValue 5_000 ms */
  readonly coolDownMs: number
  /** @defaultValue 60_000 ms */
  readonly coolDownMaxMs: number
}

export interface AdaptiveConfig {
  /** Calls at once, never fewer. @defaultValue 1 */
  readonly min: number
  /** How many times the usual 99th percentile is too slow. @defaultValue 2 */
  readonly slowdown: number
}

export interface AlertsConfig {
  readonly url: string
  readonly secret: string | undefined
}

export interface AccountConfig {
  /** Its id, url, secret, and in `options` what its provider alone understands. */
  readonly account: Account
  readonly rate: Rate
  /** Calls under way at most. */
  readonly concurrencyMax: number
  /** Each window of its rate is kept this much longer. @defaultValue that of `limits` */
  readonly marginMs?: number
}

export interface RetryConfig {
  /** The bound of the first wait; it doubles with each attempt. @defaultValue 1_000 ms */
  readonly baseMs: number
  /** @defaultValue 300_000 ms */
  readonly capMs: number
  /** Calls to a provider before a notification becomes a dead letter, where neither of the two below holds. @defaultValue 6 */
  readonly attemptsMax: number
  /** How many repetitions a pool may make, as a share of its first calls. @defaultValue 0.2 */
  readonly budget: number
  /** Where the recipient's server asks to come back in minutes. @defaultValue 300_000, 14_400_000, 345_600_000 ms */
  readonly greylisting: PatienceConfig
  /** Where what is called is away. @defaultValue 1_000, 900_000, 259_200_000 ms */
  readonly outage: PatienceConfig
}

export interface PatienceConfig {
  /** The least first wait; it doubles with each attempt. */
  readonly baseMs: number
  readonly capMs: number
  /** How long after the first call the last one may be. */
  readonly forMs: number
  /** Calls at most, where the pool names a number. @defaultValue as many as there is time for */
  readonly attemptsMax?: number
}

export interface LimitsConfig {
  /** Each window of a recipient or account is kept this much longer, because departures bunch on the way. @defaultValue 20 ms */
  readonly marginMs: number
}

export interface NetworkConfig {
  /** Whether addresses in requests may lead into private networks. @defaultValue false */
  readonly allowPrivate: boolean
  /** Through which providers are called over HTTP. Absent: straight. */
  readonly proxy?: ProxyConfig
  /** Authorities that are trusted besides the machine's. */
  readonly ca?: { readonly file: string; readonly pem: readonly string[] }
}

export interface ProxyConfig {
  /** For addresses that begin with http and https; either may be absent. */
  readonly http?: string
  readonly https?: string
  /** Hosts that are called without it. */
  readonly bypass: readonly string[]
  /** Whether the file says so, not the environment. */
  readonly isWritten: boolean
}

export interface UnsubscribeConfig {
  /** Signs the links. Absent: the key in `keyFile` does, which is made when it is first needed. */
  readonly secret: string | undefined
  /** Beside the database; absent with a store in memory, where a key lasts as long as the process. */
  readonly keyFile: string | undefined
}

export interface RetentionConfig {
  /** How long the answer to an Idempotency-Key is kept. @defaultValue 86_400_000 ms */
  readonly answersMs: number
  /** How long ended notifications are kept; not shorter than any window they count in. @defaultValue 2_678_400_000 ms */
  readonly notificationsMs: number
}

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** The limits of a tenant: its own entry or the default. */
export function tenantOf(tenants: TenantsConfig, id: string): TenantConfig {
  return tenants.byId.get(id) ?? tenants.default
}
