/**
 * loadConfig: the file, the variables and the defaults become one Config, or one error that names everything that is
 * wrong. First the form is checked as a whole (schema.ts), then what the fields mean together. Nothing is written,
 * nothing is opened: `sluice check` and `sluice serve` see the same.
 */
import { existsSync } from 'node:fs'
import { isIP } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { SluiceError } from '../errors.ts'
import { misfits } from './check.ts'
import type {
  Config,
  HttpConfig,
  PolicyConfig,
  RetentionConfig,
  StoreConfig,
  TenantConfig,
  TenantsConfig,
} from './config.ts'
import { type Environment, notCarriedYet } from './environment.ts'
import { loadPolicy } from './policy-file.ts'
import { readPools } from './pools.ts'
import { readDuration, readRate, readSize } from './quantity.ts'
import { type ConfigDocument, configSchema } from './schema.ts'
import { Source } from './source.ts'

export interface LoadOptions {
  /** Of the file. @defaultValue SLUICE_CONFIG, else sluice.yaml in the working folder where there is one */
  readonly path?: string
  readonly env: Environment
  /** The working folder: what paths of the command line and of variables are relative to. */
  readonly cwd: string
}

const defaultFile = 'sluice.yaml'
const dayMs = 86_400_000

const notCarried = new Map<string, string>([
  ...['auth', 'roles', 'websocket', 'webSocket', 'kafka', 'callbacks', 'cluster'].map(
    (key) => [key, notCarriedYet] as const,
  ),
  ...['breaker', 'shedAfter', 'fallback', 'retryBudget', 'latency', 'critical'].map(
    (key) => [`pools.*.${key}`, notCarriedYet] as const,
  ),
  ...['breaker', 'shedAfter', 'fallback', 'retryBudget', 'latency', 'critical'].map(
    (key) => [`pools.*.*.${key}`, notCarriedYet] as const,
  ),
  ...['sendgrid', 'ses', 'mailgun', 'twilio', 'apns', 'fcm', 'telegram', 'slack'].map(
    (name) => [`provider=${name}`, `${name} ${notCarriedYet}`] as const,
  ),
])

/**
 * @throws SluiceError `INVALID_CONFIG` or `INVALID_POLICY`, with `errors` by path and line; its message lists them all
 */
export function loadConfig(options: LoadOptions): Config {
  const source = new Source({ file: fileOf(options), env: options.env, cwd: options.cwd })
  for (const { path, message } of misfits(configSchema, source.value, notCarried)) source.fault(path, message)
  // What did not fit has been noted; every reader below looks only at parts in which nothing is wrong.
  const document = (source.readable ? source.value : {}) as ConfigDocument
  const part = <Key extends keyof ConfigDocument>(key: Key): ConfigDocument[Key] | undefined =>
    source.isClean([key]) ? document[key] : undefined

  const store = readStore(part('store'), source)
  if (part('state') !== undefined && document.state !== 'memory')
    refuseEngine(source, 'state', document.state!, 'memory', /^rediss?:/)
  if (part('queue') !== undefined && document.queue !== 'embedded')
    refuseEngine(source, 'queue', document.queue!, 'embedded', /^amqps?:/)
  if (part('deliveryLog') !== undefined && document.deliveryLog !== 'store')
    refuseEngine(source, 'deliveryLog', document.deliveryLog!, 'store', /^cassandra:/)
  const http = readHttp(part('http') ?? {}, source)
  const tenants = readTenants(part('tenants') ?? {})
  const pools =
    part('pools') === undefined && document.pools !== undefined ? [] : readPools(document.pools, source)
  const templates =
    part('templates') === undefined ? undefined : source.resolve(['templates'], document.templates!)
  const unsubscribe = part('unsubscribe') ?? {}
  const secret = source.secret(['unsubscribe', 'secret'], unsubscribe.secret, unsubscribe.secretFile)
  const marginMs = durationOr(20, part('limits')?.margin)
  if (marginMs > 1_000) source.fault(['limits', 'margin'], 'expected at most 1s')
  const retention = readRetention(part('retention') ?? {})
  if (retention.answersMs < dayMs)
    source.fault(['retention', 'answers'], 'expected at least 24h: clients rely on it')

  const policy = readPolicy(part('policy'), source, options.cwd)
  if (policy !== undefined) checkRetention(retention, policy, tenants, source)
  source.problems.throwIfAny('INVALID_CONFIG')
  return {
    file: source.file,
    http,
    store,
    state: { kind: 'memory' },
    queue: { kind: 'embedded' },
    deliveryLog: { kind: 'store' },
    policy: policy!,
    templates,
    tenants,
    pools,
    limits: { marginMs },
    network: { allowPrivate: document.network?.allowPrivate ?? false },
    unsubscribe: {
      secret,
      keyFile: store.path === ':memory:' ? undefined : join(dirname(store.path), 'unsubscribe.key'),
    },
    retention,
    log: { level: document.log?.level ?? 'info' },
  }
}

function fileOf(options: LoadOptions): string | undefined {
  const named = options.path ?? (options.env.SLUICE_CONFIG || undefined)
  if (named !== undefined) return resolve(options.cwd, named)
  const usual = resolve(options.cwd, defaultFile)
  return existsSync(usual) ? usual : undefined
}

function durationOr(missingMs: number, value: string | number | undefined): number {
  return value === undefined ? missingMs : readDuration(value)
}

function refuseEngine(source: Source, key: string, value: string, carried: string, later: RegExp): void {
  source.fault(
    [key],
    later.test(value)
      ? `${value.slice(0, value.indexOf(':'))} ${notCarriedYet}; expected ${carried}`
      : `expected ${carried}`,
  )
}

function readStore(value: string | undefined, source: Source): StoreConfig {
  const written = value ?? 'sqlite:./data/sluice.db'
  if (written === 'sqlite::memory:') return { kind: 'sqlite', path: ':memory:' }
  const match = /^sqlite:(?:\/\/(?=\/))?(?!\/\/)(.+)$/.exec(written)
  if (match !== null) {
    const path = value === undefined ? resolve(source.cwd, match[1]!) : source.resolve(['store'], match[1]!)
    return { kind: 'sqlite', path }
  }
  refuseEngine(source, 'store', written, 'sqlite:<path>', /^postgres(ql)?:/)
  return { kind: 'sqlite', path: ':memory:' }
}

function readHttp(written: NonNullable<ConfigDocument['http']>, source: Source): HttpConfig {
  const host = written.host ?? '127.0.0.1'
  if (!isLoopback(host)) {
    source.fault(
      ['http', 'host'],
      `"${host}" is no loopback address: without keys for tokens the gateway serves this machine only, and keys are not carried by this version yet; expected 127.0.0.1, ::1 or localhost, with a proxy that checks its callers in front`,
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
    overLimitStatus: written.overLimitStatus ?? 429,
    requestTimeoutMs: durationOr(10_000, written.requestTimeout),
    bodyMaxBytes: written.bodyMax === undefined ? 1_048_576 : readSize(written.bodyMax),
    batchBodyMaxBytes: written.batchBodyMax === undefined ? 8_388_608 : readSize(written.batchBodyMax),
    dataMaxBytes: written.dataMax === undefined ? 65_536 : readSize(written.dataMax),
  }
}

export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  return bare === 'localhost' || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'))
}

function isPublicUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const url = new URL(text)
  return url.protocol === 'https:' && url.username === '' && url.search === '' && url.hash === ''
}

function readTenants(written: NonNullable<ConfigDocument['tenants']>): TenantsConfig {
  const shipped: TenantConfig = {
    rate: readRate('100/min'),
    modules: readRate('50/min'),
    queueMax: 10_000,
    waitingMax: 1_000_000,
    weight: 1,
  }
  const over = (base: TenantConfig, entry: NonNullable<ConfigDocument['tenants']>[string]): TenantConfig => ({
    rate: entry.rate === undefined ? base.rate : readRate(entry.rate),
    modules: entry.modules === undefined ? base.modules : readRate(entry.modules),
    queueMax: entry.queue ?? base.queueMax,
    waitingMax: entry.waiting ?? base.waitingMax,
    weight: entry.weight ?? base.weight,
  })
  const { default: entry = {}, ...others } = written
  const byDefault = over(shipped, entry)
  return {
    default: byDefault,
    byId: new Map(Object.entries(others).map(([id, other]) => [id, over(byDefault, other)])),
  }
}

function readRetention(written: NonNullable<ConfigDocument['retention']>): RetentionConfig {
  return {
    answersMs: durationOr(dayMs, written.answers),
    notificationsMs: durationOr(31 * dayMs, written.notifications),
  }
}

/** The policy's own mistakes are told with those of the configuration, each with its file. */
function readPolicy(named: string | undefined, source: Source, cwd: string): PolicyConfig | undefined {
  try {
    return loadPolicy({ cwd, ...(named === undefined ? {} : { file: source.resolve(['policy'], named) }) })
  } catch (error) {
    if (!(error instanceof SluiceError) || source.problems.found.length === 0) throw error
    for (const problem of error.errors ?? []) source.problems.add(problem)
    return undefined
  }
}

/** What is forgotten cannot be counted after a restart. */
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
    ...tenantWindows.map((window) => window.windowMs),
  )
  if (retention.notificationsMs >= longestMs) return
  source.fault(
    ['retention', 'notifications'],
    `is shorter than the longest window of the limits, ${Math.ceil(longestMs / dayMs)}d: what is forgotten cannot be counted`,
  )
}
