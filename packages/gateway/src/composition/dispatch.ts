/**
 * Composes delivery: the queue, accounts and breakers, channel workers, and the presence of WebSocket clients.
 */
import { createAlertWebhook } from '../adapters/alert-webhook.ts'
import { type Config, tenantOf } from '../config/config.ts'
import { sandboxBehaviours, selfAddressed } from '../config/pools.ts'
import { createAccountPersistence } from '../delivery/accounts/account-persistence.ts'
import { createDispatcher } from '../delivery/dispatcher.ts'
import { away } from '../delivery/offline-recipient.ts'
import type { PoolOptions } from '../delivery/pools/pool.ts'
import { createPoolAlerts } from '../delivery/pools/pool-alerts.ts'
import { Route } from '../delivery/pools/route.ts'
import type { SendRules } from '../delivery/send-rules.ts'
import { unlessStateAway } from '../errors.ts'
import type { UnsubscribeLinks } from '../http/unsubscribe.ts'
import { createFleetPresence } from '../http/websocket/fleet-presence.ts'
import { createWebSocketHub, type WebSocketHub } from '../http/websocket/hub.ts'
import type { Policy } from '../policy/policy.ts'
import { address, isInvalid, optedOut } from '../policy/preferences.ts'
import type { Account, Clock, Presence, Provider, Templates } from '../ports.ts'
import { createSandbox } from '../providers/sandbox/adapter.ts'
import { createSharedAccounts } from './accounts.ts'
import type { Admission } from './admission.ts'
import { createComplaintAlerts } from './complaint-alerts.ts'
import type { Fleet } from './fleet-parts.ts'
import { liveAlerts, liveProvider } from './live.ts'
import { createPool, createProviders } from './pools.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

export type Dispatch = Awaited<ReturnType<typeof createDispatch>>

export async function createDispatch(
  { config, policy: { part: policy }, parts, clock, random, members, log, errorsOf, fleet }: RuntimeContext,
  { store, ledger, recipients, contents, holds, complaints }: Storage,
  { queue, limiter, scheduler, forbiddenHours, holdReleaser }: Admission,
  {
    templates,
    links,
    watched,
  }: {
    readonly templates: Templates
    readonly links: UnsubscribeLinks
    /** Makes a provider that notes what it sent. */
    readonly watched: (provider: Provider) => Provider
  },
) {
  const onError = unlessStateAway(errorsOf('delivery'))
  const { marginMs } = config.limits
  const { hub, everywhere, presence } = createPresence(config, clock, fleet)
  const sandbox = createSandbox({
    ...parts.sandbox,
    clock,
    random,
    accounts: sandboxBehaviours(config.pools),
  })
  const loadProviders = (from: Config): Promise<readonly Provider[]> =>
    createProviders(from, { clock, presence, sandbox })
  const loaded = parts.providers ?? (await loadProviders(config))
  const lives = loaded.map((provider) =>
    // Parts that a test or the simulator brings stay as they are.
    provider === sandbox || parts.providers !== undefined ? undefined : liveProvider(provider),
  )
  const providers = loaded.map((provider, index) => watched(lives[index]?.part ?? provider))

  // Persistence and alerts of accounts.
  const loadAlerts = ({ alerts }: Config) => alerts && createAlertWebhook({ ...alerts, clock, onError })
  const firstAlerts = loadAlerts(config)
  const liveAlert = firstAlerts && liveAlerts(firstAlerts)
  const alerts = liveAlert?.part
  if (alerts !== undefined) complaints.listen(createComplaintAlerts(alerts, { clock, random }))
  const shared =
    fleet && createSharedAccounts({ fleet, pools: config.pools, members, store, clock, marginMs })
  const persistence = createAccountPersistence({ store, ledger, clock, onError, writes: shared?.judges })
  const watch = createPoolAlerts({ alerts, random, clock, log, tells: shared?.judges })
  const onChange: PoolOptions['onChange'] = (pool, account, change) => {
    if (change.kind !== 'resized') persistence.changed(pool, account)
    watch.changed(pool, account, change)
  }
  const pools = config.pools.map((pool) => {
    const stateOf = parts.accountStateOf ?? shared?.stateOf(pool)
    return createPool(
      pool,
      { providers, presence },
      {
        marginMs,
        memberCount: members.count,
        now: clock.now(),
        onChange,
        keep: persistence.changed,
        ...(stateOf === undefined ? {} : { stateOf }),
      },
    )
  })

  holds.listen(({ hold: { account, channel, since } }) => {
    if (account === undefined) return
    // Another hold of the account may last longer.
    const own = holds.list().filter((hold) => hold.account === account && hold.channel === channel)
    const until = Math.max(0, ...own.map((hold) => hold.until))
    for (const pool of pools) if (pool.channel === channel) pool.hold(account, until, clock.now(), since)
  })

  const dispatcher = createDispatcher({
    rules: sendRulesOf(config, policy, forbiddenHours, presence),
    routes: [...Map.groupBy(pools, (pool) => pool.channel).values()].map((sharing) => new Route(sharing)),
    queue,
    store,
    ledger,
    limiter,
    keysOf: ({ notification, recipient }) =>
      policy.rulesFor(notification, recipient).map(({ subject }) => subject.key),
    shortestWindowMs: () => policy.shortestWindowMs,
    recipients,
    contents,
    scheduler,
    composer: {
      templates,
      aheadMs: clock.aheadMs,
      ...(links.urlFor === undefined ? {} : { unsubscribeUrl: links.urlFor }),
    },
    members,
    clock,
    random,
    releaseHolds: holdReleaser.releaseHolds,
    onError,
  })

  return {
    hub,
    /** Tells for each recipient if a connection is open, here or at another process that answers. */
    look:
      everywhere?.look ??
      (async (recipients: Parameters<typeof hub.areConnected>[0]) => ({
        connected: hub.areConnected(recipients),
        isWhole: true,
      })),
    sandbox,
    pools,
    watch,
    /** Another policy is in force: calls that are not written yet count under its limits. */
    policyChanged: dispatcher.policyChanged,
    async start(bornAt: number): Promise<void> {
      const known = await persistence.begin()
      // A store without any notification had no process before this one, and shared accounts know the calls of others.
      const isUsed = shared === undefined && (await store.tallies()).length > 0
      const usedUntil = isUsed ? bornAt : undefined
      for (const pool of pools) pool.restore(clock.now(), known, usedUntil)
      await Promise.all(pools.map((pool) => pool.warm()))
      dispatcher.start()
    },
    /**
     * Reads the secrets of the accounts and of the alerts anew; the returned function puts them in force. Throws
     * INVALID_CONFIG for a key that cannot be read.
     */
    async prepare(next: Config): Promise<Prepared> {
      const fresh = parts.providers === undefined ? await loadProviders(next) : loaded
      const nextAlerts = loadAlerts(next)
      const accounts = new Map(
        accountsOf(config).map((account, index) => [account, accountsOf(next)[index]!]),
      )
      const discard = async (): Promise<void> => {
        const unused = fresh.filter((provider) => provider !== sandbox && !loaded.includes(provider))
        await Promise.all([...unused.map((provider) => provider.close()), nextAlerts?.close()])
      }
      try {
        await warm(next, fresh)
      } catch (error) {
        await discard()
        throw error
      }
      return {
        discard,
        apply() {
          for (const [index, live] of lives.entries())
            if (fresh[index] !== loaded[index]) live?.replace(fresh[index]!, accounts)
          if (nextAlerts !== undefined) liveAlert?.replace(nextAlerts)
        },
      }
    },
    /** Waits until sends in flight are settled. */
    async stop(): Promise<void> {
      await dispatcher.drain()
      await shared?.close()
      await Promise.all([persistence.close(), alerts?.close()])
      await Promise.all(providers.map((provider) => provider.close()))
    },
  }
}

/** Tells who is connected to this process, and where there are several, to any of them. */
function createPresence(config: Config, clock: Clock, fleet: Fleet | undefined) {
  const { marginMs } = config.limits
  const hub: WebSocketHub = createWebSocketHub({
    clock,
    marginMs,
    waitingMax: config.webSocket.waitingMax,
    windowsOf: (tenant) => tenantOf(config.tenants, tenant).webSocketRate.windows,
    ...(fleet && {
      fleet: {
        take: fleet.state.tenantRate({
          name: 'websocket',
          marginMs,
          counted: (tenant) => hub.room(tenant).throttle.counted(),
        }),
        passOn: (...message) => fleet.state.peers.tell('published', message),
      },
    }),
  })
  const peers = fleet?.state.peers
  peers?.listen('published', (message) => hub.passOn(...(message as Parameters<typeof hub.passOn>)))
  const everywhere = peers && createFleetPresence({ hub, peers })
  const presence: Presence = everywhere ?? hub
  return { hub, everywhere, presence }
}

/** The rules that hold at the moment of sending. */
function sendRulesOf(
  config: Config,
  policy: Policy,
  forbiddenHours: Admission['forbiddenHours'],
  presence: Presence,
): SendRules {
  const fixed = selfAddressed(config.pools)
  const ownSockets = config.pools.some(({ provider }) => provider === 'websocket')
  return {
    suppression({ to, category, channel, priority }, recipient) {
      if (optedOut(recipient, category, channel, priority)) return 'opted_out'
      const found = address(to, recipient, channel)
      const bounced = found !== undefined && !fixed.has(channel) && isInvalid(recipient, channel, found)
      return bounced ? 'invalid_address' : undefined
    },
    quietAt: forbiddenHours.reasonAt,
    policyVersion: () => policy.version,
    isHeld: (notification) => forbiddenHours.heldUntil(notification) !== undefined,
    away: ownSockets ? createAway(config, presence) : undefined,
  }
}

/** Decides how a notification is delivered whose recipient is offline. */
function createAway({ webSocket: { absent } }: Config, presence: Presence): NonNullable<SendRules['away']> {
  return {
    channel: 'websocket',
    presence,
    moveOf(notification, events, now) {
      const rule = absent.byCategory.get(notification.category) ?? absent.default
      return away({ notification, events, now, absent: { ...rule, forMs: absent.waitMaxMs } })
    },
  }
}

/** Secrets that were read anew and are not in force yet. */
export interface Prepared {
  apply(): void
  discard(): Promise<void>
}

const accountsOf = ({ pools }: Config): readonly Account[] =>
  pools.flatMap(({ accounts }) => accounts.map(({ account }) => account))

/** Opens connections with the new secrets; a key that cannot be read is thrown, a server that is down is none. */
async function warm({ pools }: Config, providers: readonly Provider[]): Promise<void> {
  const warmed = await Promise.allSettled(
    pools.flatMap(({ provider: name, accounts }) => {
      const provider = providers.find((each) => each.name === name)
      return accounts.map(({ account }) => provider?.warm?.(account))
    }),
  )
  for (const result of warmed)
    if (result.status === 'rejected' && (result.reason as { code?: string }).code === 'INVALID_CONFIG')
      throw result.reason
}
