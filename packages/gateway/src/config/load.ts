/**
 * loadConfig turns the file, the variables and the defaults into one Config, or into one error that names every
 * mistake. The form is checked as a whole first (schema.ts), then the meaning of the fields together. Nothing
 * is written or opened: `sluice check` and `sluice serve` see the same.
 */
import { statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { SluiceError } from '../errors.ts'
import { marginMaxMs } from './accounts.ts'
import { isLoopback } from './address.ts'
import { readAlerts } from './alerts.ts'
import { readAuth } from './auth.ts'
import { withCallbacks } from './callbacks.ts'
import { misfits } from './check.ts'
import type {
  Config,
  DeliveryLogConfig,
  HttpConfig,
  LogConfig,
  LogLevel,
  MetricsConfig,
  PolicyConfig,
  QueueConfig,
  RetentionConfig,
  StateConfig,
  StoreConfig,
  TenantConfig,
  TenantsConfig,
} from './config.ts'
import { readDeliveryLogAddress } from './delivery-log-address.ts'
import { notCarriedYet } from './environment.ts'
import { readIntake } from './intake.ts'
import { readNetwork } from './network.ts'
import { loadPolicy } from './policy-file.ts'
import { readPools } from './pools.ts'
import { readDuration, readRate, readSize } from './quantity.ts'
import { readQueueAddress } from './queue-address.ts'
import { type ConfigDocument, configSchema, secretMin } from './schema.ts'
import { type LoadOptions, readTextFile, Source, shownFile } from './source.ts'
import { readStateAddress } from './state-address.ts'
import { readStoreAddress } from './store-address.ts'
import { checkAbsent, readWebSocket } from './websocket.ts'
import type { Path } from './yaml-file.ts'

export type { LoadOptions } from './source.ts'

const dayMs = 86_400_000
/** Cassandra's longest time to live is 20 years. */
const logKeepMsMax = 7_300 * dayMs

const notCarried = new Map<string, string>([
  ...['roles', 'callbacks', 'cluster'].map((key) => [key, notCarriedYet] as const),
  ...['mailgun'].map((name) => [`provider=${name}`, `${name} ${notCarriedYet}`] as const),
])

/**
 * @throws SluiceError `INVALID_CONFIG` or `INVALID_POLICY`, with `errors` by path and line; its message lists them all
 */
export function loadConfig(options: LoadOptions): Config {
  const source = new Source(options)
  for (const { path, message } of misfits(configSchema, source.value, notCarried)) source.fault(path, message)
  // Without an object there are no fields to read.
  if (!source.isClean([])) source.problems.throwIfAny('INVALID_CONFIG')
  // Invalid fields have been noted; every reader below looks only at valid parts.
  const document = source.value as ConfigDocument
  const part = <Key extends keyof ConfigDocument>(key: Key): ConfigDocument[Key] | undefined =>
    source.isClean([key]) ? document[key] : undefined

  const store = readStore(source.secret(['store'], part('store'), part('storeFile')), source)
  const state = readState(source.secret(['state'], part('state'), part('stateFile')), source)
  const queue = readQueue(source.secret(['queue'], part('queue'), part('queueFile')), source)
  const intake = readIntake(part('intake'), source)
  const logAddress = source.secret(['deliveryLog'], part('deliveryLog'), part('deliveryLogFile'))
  const deliveryLog = readDeliveryLog(logAddress, source)
  const auth = readAuth(part('auth'), source)
  const http = readHttp(source.sound(['http'], document.http), document.auth !== undefined, source)
  const tenants = readTenants(part('tenants') ?? {})
  const webSocket = readWebSocket(source.sound(['websocket'], document.websocket), source)
  const pools = withCallbacks(readPools(document.pools, source), http.publicUrl, source)
  checkAbsent(webSocket.absent, pools, source)
  const alerts = readAlerts(document.alerts, source)
  const templates = readFolder(part('templates'), source)
  const unsubscribe = source.sound(['unsubscribe'], document.unsubscribe)
  const secret = source.secret(['unsubscribe', 'secret'], unsubscribe.secret, unsubscribe.secretFile)
  if (secret !== undefined && secret.length < secretMin) {
    source.fault(['unsubscribe', 'secretFile'], `names a file with less than ${secretMin} characters in it`)
  }
  const marginMs = durationOr(20, source.sound(['limits'], document.limits).margin)
  if (marginMs > marginMaxMs) source.fault(['limits', 'margin'], 'expected at most 1s')
  const retention = readRetention(source.sound(['retention'], document.retention), source)

  const network = readNetwork(document.network, source, options.env)
  const policy = readPolicy(part('policy'), source, options.cwd)
  if (policy !== undefined) checkRetention(retention, policy, tenants, source)
  source.problems.throwIfAny('INVALID_CONFIG')
  return {
    file: source.file,
    http,
    auth,
    store,
    state,
    queue,
    intake,
    deliveryLog,
    policy: policy!,
    templates,
    tenants,
    webSocket,
    pools,
    limits: { marginMs },
    alerts,
    network,
    unsubscribe: {
      secret,
      keyFile: keyFileOf(store, 'unsubscribe.key', source),
    },
    retention,
    log: readLog(source.sound(['log'], document.log), keyFileOf(store, 'log.key', source)),
    metrics: readMetrics(source.sound(['metrics'], document.metrics)),
  }
}

function durationOr(missingMs: number, value: string | number | undefined): number {
  return value === undefined ? missingMs : readDuration(value)
}

function readStore(value: string | undefined, source: Source): StoreConfig {
  const resolved = (path: string): string =>
    value === undefined ? resolve(source.cwd, path) : source.resolve(['store'], path)
  try {
    return readStoreAddress(value ?? 'sqlite:./data/sluice.db', resolved)
  } catch (error) {
    source.fault(['store'], (error as Error).message)
    return { kind: 'sqlite', path: ':memory:' }
  }
}

/** Reads where the limits count. */
function readState(value: string | undefined, source: Source): StateConfig {
  if (value === undefined || value === 'memory') return { kind: 'memory' }
  try {
    return readStateAddress(value, textReader(['state'], source))
  } catch (error) {
    source.fault(['state'], (error as Error).message)
    return { kind: 'memory' }
  }
}

/** Reads where notifications wait for a provider. */
function readQueue(value: string | undefined, source: Source): QueueConfig {
  if (value === undefined || value === 'embedded') return { kind: 'embedded' }
  try {
    return readQueueAddress(value, textReader(['queue'], source))
  } catch (error) {
    source.fault(['queue'], (error as Error).message)
    return { kind: 'embedded' }
  }
}

/** Reads where changes of state are logged beside the store. */
function readDeliveryLog(value: string | undefined, source: Source): DeliveryLogConfig {
  if (value === undefined || value === 'store') return { kind: 'store' }
  try {
    return readDeliveryLogAddress(value, textReader(['deliveryLog'], source))
  } catch (error) {
    source.fault(['deliveryLog'], (error as Error).message)
    return { kind: 'store' }
  }
}

/** Reads the files that an address names, relative to where the address stands. */
const textReader =
  (path: Path, source: Source) =>
  (file: string): string => {
    const read = readTextFile(source.resolve(path, file))
    if (!read.ok) throw new Error(`${file} ${read.message}`)
    return read.text
  }

/** Keys of this machine stand beside the file of the store; with a server, in the folder `data`. */
function keyFileOf(store: StoreConfig, name: string, source: Source): string | undefined {
  if (store.kind === 'postgres') return resolve(source.cwd, 'data', name)
  return store.path === ':memory:' ? undefined : join(dirname(store.path), name)
}

function readHttp(
  written: NonNullable<ConfigDocument['http']>,
  withKeys: boolean,
  source: Source,
): HttpConfig {
  const host = written.host ?? '127.0.0.1'
  if (!withKeys && !isLoopback(host)) {
    source.fault(
      ['http', 'host'],
      `"${host}" is no loopback address: without keys for tokens the gateway serves this machine only; expected 127.0.0.1, ::1 or localhost, or keys under auth.jwt`,
    )
  }
  const publicUrl = written.publicUrl?.replace(/\/+$/, '')
  if (publicUrl !== undefined && !isPublicUrl(publicUrl)) {
    source.fault(
      ['http', 'publicUrl'],
      'expected an https URL such as https://notify.example.com: mail programs follow no other (RFC 8058)',
    )
  }
  return {
    host,
    port: written.port ?? 8080,
    publicUrl,
    drainMs: durationOr(30_000, written.drainMs),
    drainDelayMs: durationOr(0, written.drainDelay),
    overLimitStatus: written.overLimitStatus ?? 429,
    requestTimeoutMs: durationOr(10_000, written.requestTimeout),
    connectionsMax: written.connectionsMax ?? 10_000,
    bodyMaxBytes: written.bodyMax === undefined ? 1_048_576 : readSize(written.bodyMax),
    batchBodyMaxBytes: written.batchBodyMax === undefined ? 8_388_608 : readSize(written.batchBodyMax),
    dataMaxBytes: written.dataMax === undefined ? 65_536 : readSize(written.dataMax),
  }
}

function isPublicUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const url = new URL(text)
  return url.protocol === 'https:' && url.username === '' && url.search === '' && url.hash === ''
}

function readLog(written: NonNullable<ConfigDocument['log']>, keyFile: string | undefined): LogConfig {
  const { level = 'info', format, recipient = 'hash', host = false, requests = 'failed', levels } = written
  return {
    level,
    recipient,
    host,
    requests,
    ...(format === undefined ? {} : { format }),
    ...(keyFile === undefined ? {} : { keyFile }),
    ...(levels === undefined ? {} : { levels: levels as Readonly<Record<string, LogLevel>> }),
  }
}

function readMetrics({
  accounts = false,
  tenants,
  host = '127.0.0.1',
  port,
}: NonNullable<ConfigDocument['metrics']>): MetricsConfig {
  return {
    accounts,
    tenantsTop: tenants === undefined ? undefined : (tenants.top ?? 20),
    listen: port === undefined ? undefined : { host, port },
  }
}

function readTenants(written: NonNullable<ConfigDocument['tenants']>): TenantsConfig {
  const shipped: TenantConfig = {
    rate: readRate('100/min'),
    modules: readRate('50/min'),
    queueMax: 10_000,
    waitingMax: 1_000_000,
    reads: readRate('100/s'),
    writes: readRate('1000/s'),
    bytesMax: 2 ** 30,
    weight: 1,
    webSocketRate: readRate('200/s'),
    webSocketsMax: 1_000,
  }
  const over = (base: TenantConfig, entry: NonNullable<ConfigDocument['tenants']>[string]): TenantConfig => ({
    rate: entry.rate === undefined ? base.rate : readRate(entry.rate),
    modules: entry.modules === undefined ? base.modules : readRate(entry.modules),
    queueMax: entry.queue ?? base.queueMax,
    waitingMax: entry.waiting ?? base.waitingMax,
    reads: entry.reads === undefined ? base.reads : readRate(entry.reads),
    writes: entry.writes === undefined ? base.writes : readRate(entry.writes),
    bytesMax: entry.bytes === undefined ? base.bytesMax : readSize(entry.bytes),
    weight: entry.weight ?? base.weight,
    webSocketRate: entry.websocket?.rate === undefined ? base.webSocketRate : readRate(entry.websocket.rate),
    webSocketsMax: entry.websocket?.connections ?? base.webSocketsMax,
  })
  const { default: entry = {}, ...others } = written
  const byDefault = over(shipped, entry)
  return {
    default: byDefault,
    byId: new Map(Object.entries(others).map(([id, other]) => [id, over(byDefault, other)])),
  }
}

function readFolder(named: string | undefined, source: Source): string | undefined {
  if (named === undefined) return undefined
  const folder = source.resolve(['templates'], named)
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    source.fault(['templates'], `expected a folder; ${folder} is none`)
  }
  return folder
}

function readRetention(written: NonNullable<ConfigDocument['retention']>, source: Source): RetentionConfig {
  const answersMs = durationOr(dayMs, written.answers)
  if (answersMs < dayMs) source.fault(['retention', 'answers'], 'expected at least 24h: clients rely on it')
  const notificationsMs = durationOr(31 * dayMs, written.notifications)
  const deliveryLogMs = durationOr(365 * dayMs, written.deliveryLog)
  if (written.deliveryLog !== undefined && deliveryLogMs < notificationsMs)
    source.fault(['retention', 'deliveryLog'], 'expected at least as long as retention.notifications')
  if (deliveryLogMs > logKeepMsMax)
    source.fault(
      ['retention', 'deliveryLog'],
      'expected at most 7300d, the longest that Cassandra keeps a row',
    )
  return { answersMs, notificationsMs, deliveryLogMs: Math.max(deliveryLogMs, notificationsMs) }
}

/** Reads the policy; its mistakes are reported with those of the configuration, each with its file. */
function readPolicy(named: string | undefined, source: Source, cwd: string): PolicyConfig | undefined {
  const file = named === undefined ? undefined : source.resolve(['policy'], named)
  if (file !== undefined) {
    const read = readTextFile(file)
    if (!read.ok)
      return source.fault(['policy'], `names a file that ${read.message}: ${shownFile(file, cwd)}`)
  }
  try {
    return loadPolicy({ cwd, ...(file === undefined ? {} : { file }) })
  } catch (error) {
    if (!(error instanceof SluiceError) || source.problems.found.length === 0) throw error
    for (const problem of error.errors ?? []) source.problems.add(problem)
    return undefined
  }
}

/**
 * Checks that notifications are kept as long as the longest window: a forgotten one is neither counted after a restart
 * nor known as the first of its duplicates.
 */
function checkRetention(
  retention: RetentionConfig,
  policy: PolicyConfig,
  tenants: TenantsConfig,
  source: Source,
): void {
  const tenantWindows = [tenants.default, ...tenants.byId.values()].flatMap(({ rate, modules }) => [
    ...rate.windows,
    ...modules.windows,
  ])
  const longestMs = Math.max(
    policy.compiled.longestWindowMs,
    policy.compiled.deduplicationWindowMs ?? 0,
    ...tenantWindows.map((window) => window.windowMs),
  )
  if (retention.notificationsMs >= longestMs) return
  source.fault(
    ['retention', 'notifications'],
    `is shorter than the longest window of the policy and the tenants, ${Math.ceil(longestMs / dayMs)}d: what is forgotten cannot be counted`,
  )
}
