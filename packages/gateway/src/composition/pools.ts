/** Creates the pools of the configuration with their providers; loads only the providers that it names. */

import type { Config, PoolConfig } from '../config/config.ts'
import { Pool, type PoolOptions } from '../delivery/pools/pool.ts'
import type { Clock, Presence, Provider } from '../ports.ts'
import { loadProvider } from '../providers/adapters.ts'
import type { Sandbox } from '../providers/sandbox/adapter.ts'
import type { Egress } from '../providers/transport/egress.ts'
import { heardByTheConnected } from '../providers/websocket/adapter.ts'

/** The way out of the operator's network. */
export function egressOf({ network: { proxy, ca } }: Pick<Config, 'network'>): Egress {
  return {
    ...(proxy === undefined ? {} : { proxy }),
    ...(ca === undefined ? {} : { authorities: ca.pem }),
  }
}

export async function createProviders(
  config: Config,
  {
    clock,
    presence,
    sandbox,
  }: { readonly clock: Clock; readonly presence: Presence; readonly sandbox: Sandbox },
): Promise<readonly Provider[]> {
  const { allowPrivate } = config.network
  const egress = egressOf(config)
  // The wall clock: signatures, tokens and dates in mails are checked by other machines.
  const wallClock = { now: () => clock.now() + (clock.aheadMs?.() ?? 0) }
  const named = new Set(config.pools.map((pool) => pool.provider))
  const loaded = [...named].map((name) =>
    name === 'sandbox'
      ? sandbox
      : loadProvider(name, {
          clock: wallClock,
          allowPrivate,
          presence,
          egress,
          deadlineMs: longestOf(config, name),
        }),
  )
  return await Promise.all([sandbox, ...loaded.filter((each) => each !== sandbox)])
}

/**
 * The longest call deadline of the provider's pools. The pool enforces its deadline itself; an adapter's own
 * deadline must not come before it.
 */
function longestOf({ pools }: Config, provider: string): number {
  return Math.max(...pools.filter((pool) => pool.provider === provider).map((pool) => pool.timeoutMs))
}

export interface PoolParts {
  readonly providers: readonly Provider[]
  readonly presence: Presence
}

export function createPool(
  config: PoolConfig,
  { providers, presence }: PoolParts,
  context: Pick<PoolOptions, 'marginMs' | 'memberCount' | 'now' | 'onChange' | 'keep' | 'stateOf'>,
): Pool {
  const provider = providers.find((each) => each.name === config.provider)
  if (provider === undefined) throw new TypeError(`no provider is called ${config.provider}`)
  const ownSockets = config.channel === 'websocket' && provider.name === 'sandbox'
  return new Pool({
    ...context,
    ...config,
    provider: ownSockets ? heardByTheConnected(provider, presence) : provider,
    accounts: config.accounts.map(({ account, rate, concurrencyMax, marginMs }) => ({
      account,
      windows: rate.windows,
      rate: rate.text,
      concurrencyMax,
      ...(marginMs === undefined ? {} : { marginMs }),
    })),
  })
}
