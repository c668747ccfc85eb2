/**
 * Opens the engines that a gateway needs to serve one record beside others: the store with its membership on PostgreSQL,
 * and the limiter state that all of them share in Redis. A gateway with its state in memory is alone and needs none of it.
 */
import type { RedisState } from '../adapters/state/redis/redis-state.ts'
import type { Config, PostgresConfig, RedisStateConfig } from '../config/config.ts'
import { SluiceError } from '../errors.ts'
import { createStateHealth } from '../observability/state-health.ts'
import { version } from '../version.ts'
import { isLogged } from './delivery-log.ts'
import type { Fleet } from './fleet-parts.ts'
import { composeFleet, type FleetEngines } from './fleet-state.ts'
import type { RuntimeContext } from './runtime-context.ts'

/**
 * Looks at the server of the limits without changing anything, and describes it; undefined for memory.
 * @throws SluiceError INVALID_CONFIG with the way out, where it does not serve
 */
export async function lookAtState(state: Config['state'], now: () => number): Promise<string | undefined> {
  if (state.kind === 'memory') return undefined
  const { lookAtRedis } = await import('../adapters/state/redis/redis-look.ts')
  const { url, nodes, isCluster, tls, shown } = state
  return lookAtRedis({ url, nodes, isCluster, tls, shown, now })
}

/** A start ends with what is wrong with the server. One that is away is waited for: what is accepted waits with it. */
async function checkState(
  state: RedisStateConfig,
  { clock, log }: Pick<RuntimeContext, 'clock' | 'log'>,
): Promise<void> {
  try {
    await lookAtState(state, clock.now)
  } catch (error) {
    const { isUnreachable } = await import('../adapters/state/redis/redis-look.ts')
    if (!isUnreachable(error)) throw error
    log.warn({ event: 'gateway.state_unavailable', state: state.shown, err: error })
  }
}

/** Opens the engines of a fleet; undefined where the state is in the memory of this process. */
export async function openFleet(
  context: Pick<RuntimeContext, 'config' | 'clock' | 'errorsOf' | 'log' | 'parts'>,
): Promise<Fleet | undefined> {
  const { config, parts } = context
  if (config.state.kind === 'memory') return undefined
  const address = sharedStore(config)
  await checkState(config.state, context)
  const onError = context.errorsOf('store')
  const { openPostgresFleet } = await import('../store/postgres/fleet/open-fleet.ts')
  const engines = await openPostgresFleet({
    address,
    clock: context.clock,
    version,
    isLogged: isLogged(config),
    onDeclaredDead() {
      context.log.error({ event: 'gateway.declared_dead', member: engines.members.id })
      parts.onDeclaredDead?.()
    },
    onError,
    beatMs: parts.beatMs,
  })
  try {
    const state = await openState(config.state, context, engines)
    return await composeFleet({ ...engines, ...state }, context)
  } catch (error) {
    await engines.members.close()
    await engines.store.close()
    throw error
  }
}

/** @throws SluiceError INVALID_CONFIG where the store is a file */
function sharedStore({ store }: Config): PostgresConfig {
  if (store.postgres !== undefined) return store.postgres
  throw new SluiceError(
    'INVALID_CONFIG',
    'state: a Redis is filled from a store that several gateways share; expected store: postgres://…, or state: memory with a store in a file',
  )
}

/** Opens the connections to the server of the limits. */
async function openState(
  { url, tls, deadlineMs, prefix, shown }: RedisStateConfig,
  { clock, log }: Pick<RuntimeContext, 'clock' | 'log'>,
  { registrations }: Pick<FleetEngines, 'registrations'>,
): Promise<Pick<FleetEngines, 'redis' | 'bus' | 'prefix' | 'health'>> {
  // The client is loaded only where it is used: it would cost every start 30 ms.
  const [{ addressesOf, createRedisState }, { createRedisBus }] = await Promise.all([
    import('../adapters/state/redis/redis-state.ts'),
    import('../adapters/state/redis/redis-bus.ts'),
  ])
  const health = createStateHealth({ clock, log, shown })
  const state = createRedisState({
    url,
    tls,
    registrations,
    clock,
    deadlineMs,
    prefix,
    onError: health.noteError,
  })
  const redis: RedisState = { ...state, ask: (...question) => health.ask(() => state.ask(...question)) }
  const { seeds, urlOf } = addressesOf(url)
  const bus = await createRedisBus({ urls: seeds.map(urlOf), tls, prefix, onError: health.noteError })
  return { redis, bus, prefix, health }
}
