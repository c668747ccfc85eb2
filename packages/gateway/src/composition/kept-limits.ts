/** Composes the server of the limits with the keeping of them while it is away (`share` of the policy). */
import { createLimitsKeeper } from '../adapters/state/limits-keeper.ts'
import type { MemoryRegistrations } from '../adapters/state/redis/memory-registrations.ts'
import type { RedisStateConfig } from '../config/config.ts'
import type { Registrations } from '../ports/limiter.ts'
import type { ConnectedRedis, OpenedRedis } from './fleet-parts.ts'
import type { RuntimeContext } from './runtime-context.ts'
import { openRedis } from './served-limits.ts'

/** Opens the server of the limits, and keeps them where it is away and the policy shares a category. */
export async function openKeptRedis(
  state: RedisStateConfig,
  context: Pick<RuntimeContext, 'clock' | 'log' | 'policy' | 'errorsOf'>,
  { register, keeping }: Registrations & Pick<MemoryRegistrations, 'keeping'>,
): Promise<OpenedRedis> {
  const { clock, log, policy, errorsOf } = context
  // The client is loaded only where it is used: it would cost every start 30 ms.
  const { onceScript } = await import('../adapters/state/redis/scripts.ts')
  let opened: ConnectedRedis | undefined
  const keeper = await createLimitsKeeper({
    registrations: { register },
    keeping,
    async open(registrations) {
      const connected = await openRedis(state, context, registrations)
      opened = connected
      return { redis: connected.redis, awaySince: () => connected.health.counts().awaySince }
    },
    shared: () => policy.part.shared,
    clock,
    // It writes, because a server that has no memory left goes on answering what only reads.
    ping: (redis) => redis.ask(onceScript, { subject: 'k/ready', name: '' }, ['begin', 'ping', '', '1']),
    onError: errorsOf('admission'),
  })
  keeper.listen({
    onKeeper(by) {
      log.warn({ event: 'gateway.limits_kept', state: state.shown, by: by ?? 'nobody' })
    },
  })
  return { redis: keeper.state, health: opened!.health, keeper }
}
