/**
 * Composes delivery: the queue, accounts and breakers, channel workers, and the presence of WebSocket clients.
 */
import { createAlertWebhook } from '../adapters/alert-webhook.ts'
import { type Config, tenantOf } from '../config/config.ts'
import { sandboxBehaviours } from '../config/pools.ts'
import { createAccountPersistence } from '../delivery/accounts/account-persistence.ts'
import { createDispatcher } from '../delivery/dispatcher.ts'
import { away } from '../delivery/offline-recipient.ts'
import type { PoolOptions } from '../delivery/pools/pool.ts'
import { createPoolAlerts } from '../delivery/pools/pool-alerts.ts'
import { Route } from '../delivery/pools/route.ts'
import type { SendRules } from '../delivery/send-checks.ts'
import type { UnsubscribeLinks } from '../http/unsubscribe.ts'
import { createWebSocketHub } from '../http/websocket/hub.ts'
import { optedOut } from '../policy/preferences.ts'
import type { Presence, Templates } from '../ports.ts'
import { createSandbox } from '../providers/sandbox/adapter.ts'
import type { Admission } from './admission.ts'
import { createPool, createProviders } from './pools.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

export type Dispatch = Awaited<ReturnType<typeof createDispatch>>

interface Texts {
  readonly templates: Templates
  readonly links: UnsubscribeLinks
}

export async function createDispatch(
  { config, parts, clock, random, log, errorsOf }: RuntimeContext,
  { store, ledger, recipients, contents }: Storage,
  { queue, limiter, scheduler, forbiddenHours, releaseHolds }: Admission,
  { templates, links }: Texts,
) {
  const onError = errorsOf('delivery')
  const { marginMs } = config.limits
  const hub = createWebSocketHub({
    clock,
    marginMs,
    waitingMax: config.webSocket.waitingMax,
    windowsOf: (tenant) => tenantOf(config.tenants, tenant).webSocketRate.windows,
  })
  const sandbox = createSandbox({
    ...parts.sandbox,
    clock,
    random,
    accounts: sandboxBehaviours(config.pools),
  })
  const providers = parts.providers ?? (await createProviders(config, { clock, presence: hub, sandbox }))

  // Persistence and alerts of accounts.
  const alerts = config.alerts && createAlertWebhook({ ...config.alerts, clock, onError })
  const persistence = createAccountPersistence({ store, ledger, clock, onError })
  const watch = createPoolAlerts({ alerts, random, clock, log })
  const onChange: PoolOptions['onChange'] = (pool, account, change) => {
    if (change.kind !== 'resized') persistence.changed(pool, account)
    watch.changed(pool, account, change)
  }
  const pools = config.pools.map((pool) =>
    createPool(
      pool,
      { providers, presence: hub },
      {
        marginMs,
        now: clock.now(),
        onChange,
        keep: persistence.changed,
      },
    ),
  )

  const ownSockets = config.pools.some(({ provider }) => provider === 'websocket')
  const dispatcher = createDispatcher({
    rules: {
      mayReceive: ({ category, channel, priority }, recipient) =>
        !optedOut(recipient, category, channel, priority),
      quietAt: forbiddenHours.reasonAt,
      away: ownSockets ? createAway(config, hub) : undefined,
    },
    routes: [...Map.groupBy(pools, (pool) => pool.channel).values()].map((sharing) => new Route(sharing)),
    queue,
    store,
    ledger,
    limiter,
    recipients,
    contents,
    scheduler,
    composer: {
      templates,
      aheadMs: clock.aheadMs,
      ...(links.urlFor === undefined ? {} : { unsubscribeUrl: links.urlFor }),
    },
    clock,
    random,
    releaseHolds,
    onError,
  })

  return {
    hub,
    sandbox,
    pools,
    watch,
    async start(bornAt: number): Promise<void> {
      const known = await persistence.begin()
      // A store without any notification had no process before this one.
      const usedUntil = (await store.tallies()).length === 0 ? undefined : bornAt
      for (const pool of pools) pool.restore(clock.now(), known, usedUntil)
      await Promise.all(pools.map((pool) => pool.warm()))
      dispatcher.start()
    },
    /** Waits until sends in flight are settled. */
    async stop(): Promise<void> {
      await dispatcher.drain()
      await Promise.all([persistence.close(), alerts?.close()])
      await Promise.all(providers.map((provider) => provider.close()))
    },
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
