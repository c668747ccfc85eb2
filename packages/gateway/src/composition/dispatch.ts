/** From the queue to the providers: accounts and what becomes of them, the sending loop, who is connected. */
import { createAlertWebhook } from '../adapters/alert-webhook.ts'
import { createSandbox } from '../adapters/providers/sandbox.ts'
import { type Config, tenantOf } from '../config/config.ts'
import { sandboxBehaviours } from '../config/pools.ts'
import { settle } from '../delivery/outcome.ts'
import { away } from '../dispatch/absence.ts'
import { createAccountKeeper } from '../dispatch/account-keeper.ts'
import { createDispatcher, type DispatcherOptions } from '../dispatch/dispatcher.ts'
import type { PoolOptions } from '../dispatch/pool.ts'
import { createPoolWatch } from '../dispatch/pool-watch.ts'
import { Route } from '../dispatch/route.ts'
import type { UnsubscribeLinks } from '../intake/unsubscribe.ts'
import { createWebSocketHub } from '../intake/websocket/hub.ts'
import { optedOut } from '../policy/preferences.ts'
import type { Hub, Templates } from '../ports.ts'
import type { Admission } from './admission.ts'
import { createPool, createProviders } from './pools.ts'
import type { OnRecord } from './record.ts'
import type { Surroundings } from './surroundings.ts'

export type Dispatch = Awaited<ReturnType<typeof createDispatch>>

interface Texts {
  readonly templates: Templates
  readonly links: UnsubscribeLinks
}

export async function createDispatch(
  { config, parts, clock, random, log, onTrouble }: Surroundings,
  { store, ledger, people, contents }: OnRecord,
  { queue, book, schedule, hours, giveBack }: Admission,
  { templates, links }: Texts,
) {
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
  const providers = parts.providers ?? (await createProviders(config, { clock, hub, sandbox }))

  // What is kept and told of accounts.
  const alerts = config.alerts && createAlertWebhook({ ...config.alerts, clock, onTrouble })
  const keeper = createAccountKeeper({
    store,
    ledger,
    clock,
    onFreed: (pool) => dispatcher.changed(pool),
    onTrouble,
  })
  const watch = createPoolWatch({ alerts, random, clock, log })
  const onChange: PoolOptions['onChange'] = (pool, account, change) => {
    if (change.kind !== 'resized') keeper.changed(pool, account)
    watch.changed(pool, account, change)
    dispatcher.changed(pool)
  }
  const pools = config.pools.map((pool) =>
    createPool(
      pool,
      { providers, hub },
      {
        marginMs,
        now: clock.now(),
        onChange,
        keep: keeper.changed,
      },
    ),
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
    contents,
    agenda: schedule,
    composer: {
      templates,
      aheadMs: clock.aheadMs,
      ...(links.urlFor === undefined ? {} : { unsubscribeUrl: links.urlFor }),
    },
    clock,
    random,
    settle,
    quietAt: hours.reasonAt,
    giveBack,
    mayReceive: ({ category, channel, priority }, person) => !optedOut(person, category, channel, priority),
    onTrouble,
  })

  return {
    hub,
    sandbox,
    pools,
    watch,
    async start(bornAt: number): Promise<void> {
      const known = await keeper.begin()
      // Where there is no notification, there was no process before this one.
      const usedUntil = (await store.tallies()).length === 0 ? undefined : bornAt
      for (const pool of pools) pool.restore(clock.now(), known, usedUntil)
      await Promise.all(pools.map((pool) => pool.warm()))
      dispatcher.start()
    },
    /** Lets what is in flight settle. */
    async stop(): Promise<void> {
      await dispatcher.drain()
      await Promise.all([keeper.close(), alerts?.close()])
      await Promise.all(providers.map((provider) => provider.close()))
    },
  }
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
