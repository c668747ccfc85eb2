/**
 * Describes a configuration: every value in force, in the form of sluice.yaml, with secrets left out. The
 * result can be written to a file and loaded again, except for the secrets. Pure.
 */
import { formatDuration } from '@sluice/limits'
import { Document, isMap, isScalar, isSeq, stringify, visit } from 'yaml'
import type { Patience } from '../delivery/retry-policy.ts'
import type { JsonObject, JsonValue } from '../model.ts'
import { callbackOptions } from './callbacks.ts'
import type {
  AbsentRule,
  AccountConfig,
  AlertsConfig,
  AuthConfig,
  Config,
  DeliveryLogConfig,
  JwtKeys,
  PoolConfig,
  StateConfig,
  TenantConfig,
} from './config.ts'
import { describeFeedback } from './feedback.ts'
import { type Rate, sizeText } from './quantity.ts'

export const masked = '(secret)'

export function describeConfig(config: Config): JsonObject {
  const {
    http,
    auth,
    store,
    policy,
    tenants,
    webSocket,
    pools,
    limits,
    network,
    unsubscribe,
    retention,
    log,
    metrics,
  } = config
  return {
    http: {
      host: http.host,
      port: http.port,
      ...(http.publicUrl === undefined ? {} : { publicUrl: http.publicUrl }),
      drainMs: http.drainMs,
      drainDelay: formatDuration(http.drainDelayMs),
      overLimitStatus: http.overLimitStatus,
      requestTimeout: formatDuration(http.requestTimeoutMs),
      connectionsMax: http.connectionsMax,
      bodyMax: sizeText(http.bodyMaxBytes),
      batchBodyMax: sizeText(http.batchBodyMaxBytes),
      dataMax: sizeText(http.dataMaxBytes),
    },
    ...(auth === undefined ? {} : { auth: authOf(auth) }),
    store: store.kind === 'postgres' ? store.path : `sqlite:${store.path}`,
    state: stateOf(config.state),
    queue: config.queue.kind === 'embedded' ? 'embedded' : config.queue.shown,
    intake: config.intake.map(({ shown, topic, group }) => ({ kafka: shown, topic, group })),
    deliveryLog: deliveryLogOf(config.deliveryLog),
    policy: policy.file,
    ...(config.templates === undefined ? {} : { templates: config.templates }),
    tenants: {
      default: tenantOf(tenants.default),
      ...Object.fromEntries([...tenants.byId].map(([id, tenant]) => [id, tenantOf(tenant)])),
    },
    websocket: {
      messageMax: sizeText(webSocket.messageMaxBytes),
      subscriptions: webSocket.subscriptionsMax,
      frames: webSocket.framesPerSecond,
      waiting: webSocket.waitingMax,
      unread: sizeText(webSocket.unreadMaxBytes),
      heartbeat: formatDuration(webSocket.heartbeatMs),
      connections: webSocket.connectionsMax,
      absent: Object.fromEntries(
        [['default', webSocket.absent.default] as const, ...webSocket.absent.byCategory].map(
          ([category, rule]) => [category, absentText(rule)],
        ),
      ),
      waitMax: formatDuration(webSocket.absent.waitMaxMs),
    },
    pools: poolsOf(pools),
    limits: { margin: formatDuration(limits.marginMs) },
    ...(config.alerts === undefined ? {} : { alerts: alertsOf(config.alerts) }),
    network: {
      allowPrivate: network.allowPrivate,
      ...(network.proxy?.isWritten === true
        ? { proxy: shownUrl(network.proxy.https!), noProxy: [...network.proxy.bypass] }
        : {}),
      ...(network.ca === undefined ? {} : { ca: network.ca.file }),
    },
    ...(unsubscribe.secret === undefined ? {} : { unsubscribe: { secret: masked } }),
    retention: {
      answers: formatDuration(retention.answersMs),
      notifications: formatDuration(retention.notificationsMs),
      ...(config.deliveryLog.kind === 'store'
        ? {}
        : { deliveryLog: formatDuration(retention.deliveryLogMs) }),
    },
    log: {
      level: log.level,
      ...(log.format === undefined ? {} : { format: log.format }),
      recipient: log.recipient ?? 'hash',
      host: log.host ?? false,
      requests: log.requests ?? 'failed',
      ...(log.levels === undefined ? {} : { levels: { ...log.levels } }),
    },
    metrics: {
      accounts: metrics.accounts,
      ...(metrics.tenantsTop === undefined ? {} : { tenants: { top: metrics.tenantsTop } }),
      ...(metrics.listen === undefined ? {} : { ...metrics.listen }),
    },
  }
}

/** Formats the description as YAML, with the innermost values on one line. */
export function configText(config: Config): string {
  const document = new Document(describeConfig(config))
  visit(document, {
    Map: (_key, map, path) => {
      map.flow =
        path.some(isSeq) ||
        (path.filter(isMap).length >= 2 && map.items.every((pair) => isScalar(pair.value)))
    },
    Seq: (_key, list) => {
      list.flow = !list.items.some(isMap)
    },
  })
  return document.toString({ lineWidth: 120, flowCollectionPadding: true }).trimEnd()
}

/** Formats the document of a policy as YAML. */
export const policyText = (document: JsonObject): string =>
  stringify(document, { lineWidth: 120, collectionStyle: 'any' }).trimEnd()

/** Shows the address without its password and the contents of its certificates. */
function stateOf(state: StateConfig): string {
  if (state.kind === 'memory') return 'memory'
  return `${state.shown}?prefix=${state.prefix}&deadline=${formatDuration(state.deadlineMs)}&slot=${formatDuration(state.slotMs)}`
}

/** Shows the address without its password and the contents of its certificates. */
function deliveryLogOf(log: DeliveryLogConfig): string {
  if (log.kind === 'store') return 'store'
  const options = [
    ...(log.dataCentre === undefined ? [] : [`dc=${encodeURIComponent(log.dataCentre)}`]),
    ...(log.tls === undefined ? [] : ['tls=true']),
    ...(log.replication === undefined ? [] : [`replication=${log.replication}`]),
  ]
  return options.length === 0 ? log.shown : `${log.shown}?${options.join('&')}`
}

function authOf({ jwt, claims }: AuthConfig): JsonObject {
  const { keys, issuer, audience, algorithms } = jwt
  return { jwt: { ...keysOf(keys), issuer, audience, algorithms: [...algorithms] }, claims }
}

function keysOf(keys: JwtKeys): JsonObject {
  switch (keys.kind) {
    case 'secrets':
      return { secret: masked }
    case 'public':
      return { publicKeyFile: keys.file }
    case 'jwks':
      return { jwks: keys.url }
  }
}

function tenantOf(tenant: TenantConfig): JsonObject {
  return {
    rate: rateOf(tenant.rate),
    modules: rateOf(tenant.modules),
    queue: tenant.queueMax,
    waiting: tenant.waitingMax,
    reads: rateOf(tenant.reads),
    writes: rateOf(tenant.writes),
    bytes: sizeText(tenant.bytesMax),
    weight: tenant.weight,
    websocket: { rate: rateOf(tenant.webSocketRate), connections: tenant.webSocketsMax },
  }
}

function absentText(rule: AbsentRule): string {
  return rule.kind === 'fallback' ? `fallback:${rule.channel}` : rule.kind
}

function rateOf(rate: Rate): JsonValue {
  return rate.windows.length > 1 ? rate.windows.map((window) => window.text) : rate.text
}

/** Lists the pools of each channel; a list gives an order of fallback. */
function poolsOf(pools: readonly PoolConfig[]): JsonObject {
  const byChannel = Map.groupBy(pools, (pool) => pool.channel)
  return Object.fromEntries(
    [...byChannel].map(([channel, those]) => [
      channel,
      those.length === 1 ? poolOf(those[0]!) : those.map(poolOf),
    ]),
  )
}

function alertsOf({ url, secret }: AlertsConfig): JsonObject {
  return { url: shownUrl(url), ...(secret === undefined ? {} : { secret: masked }) }
}

function poolOf(pool: PoolConfig): JsonObject {
  return {
    provider: pool.provider,
    timeout: formatDuration(pool.timeoutMs),
    retry: {
      base: formatDuration(pool.retry.baseMs),
      cap: formatDuration(pool.retry.capMs),
      // A configured number bounds every kind of failure.
      ...(pool.retry.outage.attemptsMax === undefined ? {} : { attempts: pool.retry.attemptsMax }),
      budget: pool.retry.budget,
      greylisting: describePatience(pool.retry.greylisting),
      outage: describePatience(pool.retry.outage),
    },
    breaker: {
      failures: pool.breaker.failures,
      of: pool.breaker.of,
      within: formatDuration(pool.breaker.withinMs),
      inARow: pool.breaker.inARow,
      coolDown: formatDuration(pool.breaker.coolDownMs),
      coolDownMax: formatDuration(pool.breaker.coolDownMaxMs),
    },
    shedding: pool.shedding,
    shedAfter: formatDuration(pool.shedAfterMs),
    critical: pool.criticalShare,
    adaptive: pool.adaptive === undefined ? false : { ...pool.adaptive },
    accounts: pool.accounts.map(accountOf),
  }
}

function accountOf({ account, rate, concurrencyMax, marginMs, feedback }: AccountConfig): JsonObject {
  const { dkim, rates, ...other } = account.options
  const options = Object.fromEntries(
    Object.entries(other).filter(([name]) => !(callbackOptions as readonly string[]).includes(name)),
  )
  return {
    id: account.id,
    ...(account.url === undefined ? {} : { url: shownUrl(account.url) }),
    ...(account.secret === undefined ? {} : { secret: masked }),
    ...options,
    ...(rates === undefined
      ? {}
      : {
          allows: (rates as readonly WindowOption[]).map(
            ({ max, windowMs }) => `${max}/${formatDuration(windowMs)}`,
          ),
        }),
    ...(dkim === undefined ? {} : { dkim: { ...(dkim as JsonObject), privateKey: masked } }),
    rate: rateOf(rate),
    concurrency: concurrencyMax,
    ...(marginMs === undefined ? {} : { margin: formatDuration(marginMs) }),
    ...(feedback === undefined ? {} : { feedback: describeFeedback(feedback, masked) }),
  }
}

type WindowOption = { readonly max: number; readonly windowMs: number }

/** Shows host and port only; user, password, path and query may hold a secret. */
export function shownUrl(text: string): string {
  const url = new URL(text)
  const user = url.username === '' && url.password === '' ? '' : `${masked}@`
  const rest = url.pathname.length > 1 || url.search !== '' ? '/…' : ''
  return `${url.protocol}//${user}${url.host}${rest}`
}

function describePatience({ baseMs, capMs, forMs }: Patience): JsonObject {
  return { base: formatDuration(baseMs), cap: formatDuration(capMs), for: formatDuration(forMs) }
}

/**
 * Returns the paths of changed fields that take a restart, such as `pools.sms`: all but secrets, keys, templates and the
 * policy. None where only those differ. The passwords of engines take one.
 */
export function restartFields(before: Config, after: Config): readonly string[] {
  const fields = differing(describeConfig(before), describeConfig(after), '')
  // A description shows no password and no certificate of an engine, with which its connections are made for as long as the
  // process runs.
  const engines = servers.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
  // The folder of the templates and the file of the policy may be other ones: they are read anew.
  return [...new Set([...fields, ...engines])].filter((field) => field !== 'templates' && field !== 'policy')
}

const servers = ['store', 'state', 'queue', 'intake', 'deliveryLog'] as const

function differing(before: unknown, after: unknown, path: string): string[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  const isSection = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
  // Two levels name the place well enough: an account has too many fields.
  if (!isSection(before) || !isSection(after) || path.includes('.')) return [path]
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...keys].flatMap((key) => differing(before[key], after[key], path === '' ? key : `${path}.${key}`))
}
