/**
 * Composes what a gateway needs to serve one record beside others: the store with its membership on PostgreSQL, and the
 * limiter state that all of them share in Redis. A gateway with its state in memory is alone and needs none of it.
 */
import type { RedisRoomOptions } from '../adapters/state/redis/redis-room.ts'
import type { RedisState } from '../adapters/state/redis/redis-state.ts'
import type { RedisThrottleOptions } from '../adapters/state/redis/redis-throttle.ts'
import type { Config, PostgresConfig, RedisStateConfig } from '../config/config.ts'
import { SluiceError } from '../errors.ts'
import { createStateHealth } from '../observability/state-health.ts'
import type { Registrations } from '../registration-port.ts'
import { version } from '../version.ts'
import type { Fleet, SharedState } from './fleet-parts.ts'
import type { RuntimeContext } from './runtime-context.ts'

/** Opens the engines of a fleet; undefined where the state is in the memory of this process. */
export async function openFleet(
  context: Pick<RuntimeContext, 'config' | 'clock' | 'errorsOf' | 'log' | 'parts'>,
): Promise<Fleet | undefined> {
  const { config, parts } = context
  if (config.state.kind === 'memory') return undefined
  const address = sharedStore(config)
  const onError = context.errorsOf('store')
  const { openPostgresFleet } = await import('../store/postgres/fleet/open-fleet.ts')
  const { store, members, registrations, records } = await openPostgresFleet({
    address,
    clock: context.clock,
    version,
    onDeclaredDead() {
      context.log.error({ event: 'gateway.declared_dead', member: members.id })
      parts.onDeclaredDead?.()
    },
    onError,
    beatMs: parts.beatMs,
  })
  try {
    return {
      store,
      members,
      state: await openState(config.state, context, { member: members.id, registrations, records }),
    }
  } catch (error) {
    await members.close()
    await store.close()
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

interface StateParts {
  readonly member: string
  readonly registrations: Registrations
  readonly records: RedisThrottleOptions['record'] & RedisRoomOptions['record']
}

async function openState(
  config: RedisStateConfig,
  { clock, errorsOf, log }: Pick<RuntimeContext, 'clock' | 'errorsOf' | 'log'>,
  { member, registrations, records }: StateParts,
): Promise<SharedState> {
  const report = errorsOf('admission')
  // That the server is away is told once, by its health.
  const onError: typeof report = (what, error) => {
    if (!(error instanceof SluiceError) || error.code !== 'STATE_UNAVAILABLE') report(what, error)
  }
  // The client is loaded only where it is used: it would cost every start 30 ms.
  const [
    { createRedisState },
    { createRedisThrottle },
    { createRedisRoom },
    { createRedisOnce },
    { onceScript },
  ] = await Promise.all([
    import('../adapters/state/redis/redis-state.ts'),
    import('../adapters/state/redis/redis-throttle.ts'),
    import('../adapters/state/redis/redis-room.ts'),
    import('../adapters/state/redis/redis-once.ts'),
    import('../adapters/state/redis/scripts.ts'),
  ])
  const { url, tls, deadlineMs, prefix, shown } = config
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
  const redis: RedisState = { ...state, ask: (...question) => health.watch(state.ask(...question)) }
  const once = createRedisOnce({ redis, member })
  const room = createRedisRoom({
    redis,
    record: records,
    clock,
    member,
    onError: (error) => onError('count the room of a tenant', error),
  })
  return {
    once,
    room,
    throttle: ({ ratesOf, marginMs }) =>
      createRedisThrottle({ redis, record: records, clock, ratesOf, marginMs, onError }),
    health,
    async ping() {
      await redis.ask(onceScript, { subject: 'k/ready', name: '' }, ['keep', member, '', '1'])
    },
    async close() {
      once.close()
      await room.close()
      state.close()
    },
  }
}
