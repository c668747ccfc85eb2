/**
 * The composition: configuration → adapters → stages, in the order in which a notification meets them. The only
 * file that knows both the engines and the stages. Read it first: everything that Sluice is made of stands here.
 */
import { createAlertWebhook } from './adapters/alert-webhook.ts'
import { createSystemClock } from './adapters/clock.ts'
import { keptKey } from './adapters/key-file.ts'
import { loadProvider } from './adapters/providers/loaders.ts'
import { createSandbox, type Sandbox, type SandboxOptions } from './adapters/providers/sandbox.ts'
import { heardByTheConnected } from './adapters/providers/websocket.ts'
import { createEmbeddedQueue } from './adapters/queue/embedded.ts'
import { createRandom } from './adapters/random.ts'
import { createMemoryState } from './adapters/state/memory.ts'
import { createMemoryStore } from './adapters/store/memory.ts'
import { createSqliteStore } from './adapters/store/sqlite.ts'
import { builtInTemplates, createTemplates } from './adapters/templates/liquid.ts'
import { createBook } from './admission/book.ts'
import { createFacts } from './admission/facts.ts'
import { createGate } from './admission/gate.ts'
import { createGivingBack } from './admission/giving-back.ts'
import { createHours } from './admission/hours.ts'
import { createPeople } from './admission/people.ts'
import { createPlatformLine } from './admission/platform.ts'
import { type AuthConfig, type Config, type PoolConfig, tenantOf } from './config/config.ts'
import { sandboxBehaviours, selfAddressed } from './config/pools.ts'
import { createLedger } from './delivery/ledger.ts'
import { settle } from './delivery/outcome.ts'
import { startRetention } from './delivery/retention.ts'
import { away } from './dispatch/absence.ts'
import { createAccountKeeper } from './dispatch/account-keeper.ts'
import { createDispatcher, type DispatcherOptions } from './dispatch/dispatcher.ts'
import { Pool, type PoolOptions } from './dispatch/pool.ts'
import { createPoolWatch } from './dispatch/pool-watch.ts'
import { Route } from './dispatch/route.ts'
import type { Gate, Jobs, Ledger, PlatformUsage, PoolReport } from './doors.ts'
import { SluiceError } from './errors.ts'
import type { Authenticate } from './intake/identity.ts'
import { createJobs } from './intake/jobs.ts'
import type { HttpServer } from './intake/server.ts'
import { createUnsubscribeLinks } from './intake/unsubscribe.ts'
import { createWebSocketHub } from './intake/websocket/hub.ts'
import { createLog } from './log.ts'
import { missingTemplates } from './policy/digest-templates.ts'
import { optedOut } from './policy/preferences.ts'
import type { Clock, Hub, Provider, Random, Store, Templates, Tokens } from './ports.ts'
import { createSchedule } from './schedule/agenda.ts'
import { createArrivals } from './schedule/arrival.ts'

export interface Gateway {
  /** Opens the doors; resolves when requests are answered. */
  start(): Promise<{ readonly url: string }>
  /** The same without HTTP: for the simulator and for tests. */
  startStages(): Promise<void>
  /** Takes nothing new, lets what is in flight settle, and closes the store. */
  stop(): Promise<void>
  readonly gate: Gate
  readonly jobs: Jobs
  readonly store: Store
  readonly ledger: Ledger
  readonly pools: () => readonly PoolReport[]
  readonly sandbox: Sandbox
}

/** What the simulator and tests put in place of the machine's own. */
export interface GatewayParts {
  readonly clock?: Clock
  readonly random?: Random
  readonly store?: Store
  readonly providers?: readonly Provider[]
  readonly templates?: Templates
  /** What the sandbox does besides what its accounts say. */
  readonly sandbox?: Pick<SandboxOptions, 'phases' | 'script'>
}

/** Chance from a seed and a store without a disk: with a virtual clock, all that a simulation needs. */
export function virtualParts(chance: () => number): Pick<GatewayParts, 'random' | 'store'> {
  return { random: createRandom(chance), store: createMemoryStore() }
}

/**
 * The operator's templates before those that ship. Throws INVALID_CONFIG for a file that is no template, and
 * INVALID_POLICY for a digest without one.
 */
export function loadTemplates(config: Pick<Config, 'templates' | 'policy'>): Templates {
  const { templates: own, policy } = config
  const templates = createTemplates({ folders: [...(own === undefined ? [] : [own]), builtInTemplates] })
  const errors = missingTemplates(policy.compiled, templates.has)
  if (errors.length === 0) return templates
  const lines = errors.map(({ path, message }) => `${policy.file}: ${path}: ${message}`)
  throw new SluiceError('INVALID_POLICY', lines.join('\n'), { errors })
}

export async function createGateway(config: Config, parts: GatewayParts = {}): Promise<Gateway> {
  const log = createLog(config.log.level)
  const clock = parts.clock ?? createSystemClock()
  const bornAt = clock.now()
  const random = parts.random ?? createRandom()
  const policy = config.policy.compiled
  const trouble = (what: string, error: unknown): void => log.error({ err: error }, what)

  // What is durable, and what is known of it in memory.
  const store = parts.store ?? (await createSqliteStore({ path: config.store.path, clock }))
  let server: HttpServer | undefined
  const ledger = await createLedger({
    store,
    clock,
    boundsFor: (tenant) => tenantOf(config.tenants, tenant),
    onCommit: (tookMs) => server?.metrics.onCommit(tookMs),
  })
  const people = createPeople({ store })

  // The limits: a cache of facts in the store.
  const factsOf = createFacts({ store, policy, ledger, people, clock })
  const state = createMemoryState({ clock, marginMs: config.limits.marginMs, factsOf })
  const hours = createHours(policy)
  const book = createBook({ state, policy, hours, clock })

  // The limits of tenants and modules, and the way back for what anybody held in any limit.
  const platform = createPlatformLine({
    store,
    clock,
    marginMs: config.limits.marginMs,
    policyVersion: policy.version,
    ratesOf: (tenant) => {
      const { rate, modules } = tenantOf(config.tenants, tenant)
      return { tenant: rate.windows, module: modules.windows }
    },
    callUp: (tenant, ids) => gate.callUp(tenant, ids),
    onTrouble: trouble,
  })
  const giveBack = createGivingBack({ book, state, people, policy, platform })

  // Schedule: what is due goes to the queue.
  const queue = createEmbeddedQueue({ clock, weightOf: (tenant) => tenantOf(config.tenants, tenant).weight })
  const schedule = createSchedule({
    store,
    ledger,
    queue,
    clock,
    gate: () => gate,
    giveBack,
    onTrouble: trouble,
  })

  // Admission: what is accepted, and when it may leave.
  const gate = createGate({
    store,
    ledger,
    state,
    book,
    people,
    policy,
    hours,
    agenda: schedule,
    platform,
    giveBack,
    selfAddressed: selfAddressed(config.pools),
    clock,
    random,
  })

  // Intake: batches that are accepted in the background.
  const jobs = createJobs({ gate, store, ledger, clock, random, onTrouble: trouble })

  // Who is connected over WebSockets; the door to it opens with HTTP.
  const hub = createWebSocketHub({
    clock,
    marginMs: config.limits.marginMs,
    waitingMax: config.webSocket.waitingMax,
    windowsOf: (tenant) => tenantOf(config.tenants, tenant).webSocketRate.windows,
  })

  // Dispatch: accounts, leases, providers.
  const templates = parts.templates ?? loadTemplates(config)
  const { publicUrl } = config.http
  // Without a public address nobody could follow a link: no key is made.
  const links = createUnsubscribeLinks({ publicUrl, key: publicUrl === undefined ? '' : signingKey(config) })
  const sandbox = createSandbox({
    ...parts.sandbox,
    clock,
    random,
    accounts: sandboxBehaviours(config.pools),
  })
  const providers = parts.providers ?? (await createProviders(config, { clock, hub, sandbox }))
  const alerts = config.alerts && createAlertWebhook({ ...config.alerts, clock, onTrouble: trouble })
  const keeper = createAccountKeeper({
    store,
    ledger,
    clock,
    onFreed: (pool) => dispatcher.changed(pool),
    onTrouble: trouble,
  })
  const watch = createPoolWatch({ alerts, random, clock, log })
  const onChange: PoolOptions['onChange'] = (pool, account, change) => {
    if (change.kind !== 'resized') keeper.changed(pool, account)
    watch.changed(pool, account, change)
    dispatcher.changed(pool)
  }
  const { marginMs } = config.limits
  const pools = config.pools.map((pool) =>
    createPool(pool, { providers, hub }, { marginMs, now: clock.now(), onChange, keep: keeper.changed }),
  )
  const ownSockets = config.pools.some(({ provider }) => provider === 'websocket')
  const dispatcher = createDispatcher({
    ...(ownSockets ? { away: createAway(config, hub) } : {}),
    routes: [...Map.groupBy(pools, (pool) => pool.channel).values()].map((those) => new Route(those)),
    queue,
    store,
    ledger,
    book,
    people,
    agenda: schedule,
    composer: { templates, ...(links.urlFor === undefined ? {} : { unsubscribeUrl: links.urlFor }) },
    clock,
    random,
    settle,
    quietAt: hours.reasonAt,
    giveBack,
    mayReceive: ({ category, channel, priority }, person) => !optedOut(person, category, channel, priority),
    onTrouble: trouble,
  })

  const poolReports = (): readonly PoolReport[] => pools.map((pool) => pool.report(clock.now()))
  let stopRetention: (() => void) | undefined
  let tokens: Tokens | undefined

  /** Undefined without keys. */
  async function createDoorkeeper(auth: AuthConfig | undefined): Promise<Authenticate | undefined> {
    if (auth === undefined) return undefined
    const [{ createTokens }, { createAuthenticate }] = await Promise.all([
      import('./adapters/tokens/jose.ts'),
      import('./intake/authentication.ts'),
    ])
    const onTrouble = (error: unknown): void => trouble('the keys of the issuer cannot be fetched', error)
    tokens = createTokens({ ...auth.jwt, clock, keySet: { onTrouble } })
    return createAuthenticate({ tokens, claims: auth.claims, clock })
  }

  async function startStages(): Promise<void> {
    const known = await keeper.begin()
    // Where there is no notification, there was no process before this one.
    const usedUntil = (await store.tallies()).length === 0 ? undefined : bornAt
    for (const pool of pools) pool.restore(clock.now(), known, usedUntil)
    await Promise.all(pools.map((pool) => pool.warm()))
    dispatcher.start()
    stopRetention = startRetention({ store, clock, ...config.retention, onTrouble: trouble })
    hub.onArrival(createArrivals({ store, ledger, agenda: schedule, clock, onTrouble: trouble }))
    await platform.start()
    await schedule.start()
    await jobs.start()
  }

  return {
    gate,
    jobs,
    store,
    ledger,
    sandbox,
    pools: poolReports,
    startStages,
    async start() {
      // Loaded here, because the simulator and most commands never open a door.
      const [{ createHttpServer }, { limitHeaders }] = await Promise.all([
        import('./intake/server.ts'),
        import('./intake/limit-headers.ts'),
      ])
      const authenticate = await createDoorkeeper(config.auth)
      server = createHttpServer({
        ...(authenticate === undefined ? {} : { authenticate }),
        config: config.http,
        gate,
        jobs,
        store,
        ledger,
        policy,
        templates,
        links,
        channels: [...new Set(pools.map((pool) => pool.channel))],
        selfAddressed: selfAddressed(config.pools),
        pools: poolReports,
        poolCounts: () => pools.map(watch.countsOf),
        queue,
        people,
        clock,
        log,
        webSocket: {
          config: config.webSocket,
          hub,
          connectionsMaxOf: (tenant) => tenantOf(config.tenants, tenant).webSocketsMax,
        },
        limitHeaders: (caller) => {
          const usage = platform.usage(caller)
          const headers = (rows: readonly PlatformUsage[]) => limitHeaders(rows, clock.now())
          return usage instanceof Promise ? usage.then(headers) : headers(usage)
        },
      })
      const url = await server.listen()
      await startStages()
      return { url }
    },
    async stop() {
      await server?.close()
      tokens?.close()
      await jobs.stop()
      stopRetention?.()
      await platform.stop()
      await schedule.stop()
      await dispatcher.drain()
      await Promise.all([keeper.close(), alerts?.close()])
      await Promise.all(providers.map((provider) => provider.close()))
      await Promise.all([queue.close(), state.close()])
      await store.close()
    },
  }
}

/** Only what the configuration names is loaded. */
async function createProviders(
  config: Config,
  { clock, hub, sandbox }: { readonly clock: Clock; readonly hub: Hub; readonly sandbox: Sandbox },
): Promise<readonly Provider[]> {
  const { allowPrivate } = config.network
  const named = new Set(config.pools.map((pool) => pool.provider))
  const loaded = [...named].map((name) =>
    name === 'sandbox'
      ? sandbox
      : loadProvider(name, { clock, allowPrivate, hub, deadlineMs: longestOf(config, name) }),
  )
  return await Promise.all([sandbox, ...loaded.filter((each) => each !== sandbox)])
}

function signingKey({ unsubscribe }: Config): string | Buffer {
  return unsubscribe.secret ?? keptKey(unsubscribe.keyFile)
}

/** Whether somebody is connected, and what the configuration says for when not. */
function createAway({ webSocket: { absent } }: Config, hub: Hub): NonNullable<DispatcherOptions['away']> {
  return (notification, events, now) => {
    const { tenant, to, channel, category } = notification
    if (channel !== 'websocket' || hub.isConnected(tenant, to.id)) return undefined
    const rule = absent.byCategory.get(category) ?? absent.default
    return away({ notification, events, now, absent: { ...rule, forMs: absent.waitMaxMs } })
  }
}

/** The pool ends a call in time; an adapter's own deadline must not come before the longest of them. */
function longestOf({ pools }: Config, provider: string): number {
  return Math.max(...pools.filter((pool) => pool.provider === provider).map((pool) => pool.timeoutMs))
}

interface PoolParts {
  readonly providers: readonly Provider[]
  readonly hub: Hub
}

function createPool(
  config: PoolConfig,
  { providers, hub }: PoolParts,
  surroundings: Pick<PoolOptions, 'marginMs' | 'now' | 'onChange' | 'keep'>,
): Pool {
  const provider = providers.find((each) => each.name === config.provider)
  if (provider === undefined) throw new TypeError(`no provider is called ${config.provider}`)
  const ownSockets = config.channel === 'websocket' && provider.name === 'sandbox'
  return new Pool({
    ...surroundings,
    ...config,
    provider: ownSockets ? heardByTheConnected(provider, hub) : provider,
    accounts: config.accounts.map(({ account, rate, concurrencyMax, marginMs }) => ({
      account,
      windows: rate.windows,
      rate: rate.text,
      concurrencyMax,
      ...(marginMs === undefined ? {} : { marginMs }),
    })),
  })
}
