/**
 * Opens the engines that a gateway needs to serve one record beside others: the store with its membership on PostgreSQL,
 * and the limiter state that all of them share in Redis. A gateway with its state in memory is alone and needs none of it.
 */
import type { MemoryRegistrations } from '../adapters/state/redis/memory-registrations.ts'
import type { Config, RedisStateConfig } from '../config/config.ts'
import { channelsOf } from '../config/pools.ts'
import { version } from '../version.ts'
import { isLogged } from './delivery-log.ts'
import type { Fleet } from './fleet-parts.ts'
import { composeFleet, type FleetEngines } from './fleet-state.ts'
import { openKeptRedis } from './kept-limits.ts'
import type { RuntimeContext } from './runtime-context.ts'

/**
 * Looks at the server of the limits without changing anything, and describes it; undefined for memory.
 * @throws SluiceError INVALID_CONFIG with the way out, where it does not serve
 */
export async function lookAtState(
  { state, store }: Pick<Config, 'state' | 'store'>,
  now: () => number,
  onSlow?: (detail: string) => void,
): Promise<string | undefined> {
  if (state.kind === 'memory') return undefined
  const { lookAtRedis } = await import('../adapters/state/redis/redis-look.ts')
  return lookAtRedis({ ...state, usesChannels: store.postgres !== undefined, now, onSlow })
}

/** A start ends with what is wrong with the server. One that is away is waited for: what is accepted waits with it. */
async function checkState(
  state: RedisStateConfig,
  { config, clock, log }: Pick<RuntimeContext, 'config' | 'clock' | 'log'>,
): Promise<void> {
  try {
    await lookAtState(config, clock.now, (detail) => log.warn({ event: 'gateway.state_slow', detail }))
  } catch (error) {
    const { isUnreachable } = await import('../adapters/state/redis/redis-look.ts')
    if (!isUnreachable(error)) throw error
    log.warn({ event: 'gateway.state_unavailable', state: state.shown, err: error })
  }
}

/**
 * Opens the engines of a fleet; undefined where this process has its record, or the state of its limits, for itself.
 * @throws SluiceError INVALID_CONFIG where the server of the limits cannot be used, before any store is opened
 */
export async function openFleet(
  context: Pick<RuntimeContext, 'config' | 'clock' | 'errorsOf' | 'log' | 'parts' | 'policy'>,
): Promise<Fleet | undefined> {
  const { config, parts } = context
  const { state: stateConfig, store } = config
  if (stateConfig.kind === 'memory') return undefined
  await checkState(stateConfig, context)
  if (store.postgres === undefined) return undefined
  const onError = context.errorsOf('store')
  const { openPostgresFleet } = await import('../store/postgres/fleet/open-fleet.ts')
  const engines = await openPostgresFleet({
    address: store.postgres,
    clock: context.clock,
    version,
    channels: channelsOf(config.pools),
    policy: () => context.policy.part.version,
    isLogged: isLogged(config),
    onDeclaredDead() {
      context.log.error({ event: 'gateway.declared_dead', member: engines.members.id })
      parts.onDeclaredDead?.()
    },
    onOtherDead: (member, gateway) =>
      context.log.warn({ event: 'gateway.other_declared_dead', member, gateway }),
    onNotDurable: (detail) => context.log.warn({ event: 'store.not_durable', detail }),
    onError,
    beatMs: parts.beatMs,
  })
  try {
    const state = await openState(stateConfig, context, engines)
    return await composeFleet({ ...engines, ...state }, context)
  } catch (error) {
    await engines.members.close()
    await engines.store.close()
    throw error
  }
}

/** Opens the connections to the server of the limits, and the bus beside them. */
async function openState(
  state: RedisStateConfig,
  context: Pick<RuntimeContext, 'clock' | 'log' | 'policy' | 'errorsOf'>,
  { registrations, keeping }: Pick<FleetEngines, 'registrations'> & Pick<MemoryRegistrations, 'keeping'>,
): Promise<Pick<FleetEngines, 'redis' | 'bus' | 'prefix' | 'slotMs' | 'health' | 'keeper'>> {
  const { url, tls, prefix, slotMs } = state
  // The client is loaded only where it is used: it would cost every start 30 ms.
  const [{ addressesOf }, { createRedisBus }, { redis, health, keeper }] = await Promise.all([
    import('../adapters/state/redis/redis-state.ts'),
    import('../adapters/state/redis/redis-bus.ts'),
    openKeptRedis(state, context, { register: registrations.register, keeping }),
  ])
  const { seeds, isCluster, urlOf } = addressesOf(url)
  const urls = seeds.map(urlOf)
  const urlOfNode = isCluster ? urlOf : undefined
  const bus = await createRedisBus({ urls, urlOfNode, tls, prefix, onError: health.noteError })
  return { redis, bus, prefix, slotMs, health, keeper }
}
