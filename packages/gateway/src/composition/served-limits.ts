/**
 * Composes limits that count in a server: those of recipients, and those of tenants and modules with their throttle queues.
 * Several gateways share them (fleet-state.ts); one that has its record for itself keeps all else in its own memory.
 */
import type { LimitsKeeper } from '../adapters/state/limits-keeper.ts'
import type { MemoryRegistrations } from '../adapters/state/redis/memory-registrations.ts'
import type { RedisState } from '../adapters/state/redis/redis-state.ts'
import type { RedisThrottle, ThrottleRecord } from '../adapters/state/redis/redis-throttle.ts'
import type { RedisStateConfig } from '../config/config.ts'
import { unlessStateAway } from '../errors.ts'
import { createStateHealth, type StateHealth } from '../observability/state-health.ts'
import type { Members } from '../ports/fleet.ts'
import type { Registrations } from '../ports/limiter.ts'
import type { Store, TenantGeneration } from '../ports.ts'
import type { SqliteStore } from '../store/sqlite/sqlite.ts'
import type { ConnectedRedis, OpenedRedis, ServedLimits } from './fleet-parts.ts'
import type { RuntimeContext } from './runtime-context.ts'

export interface LimitEngines {
  readonly redis: RedisState
  readonly records: ThrottleRecord
  readonly health: Pick<StateHealth, 'counts'>
  readonly keeper?: LimitsKeeper | undefined
  /** The name of this process, as no other process has it, and the mark of the policies that others have left. */
  readonly members: Pick<Members, 'id' | 'policiesLeft'>
}

export interface ComposedLimits extends ServedLimits {
  /** Hears the newest generation of a tenant's throttle queues on record. Queues of an earlier one are filled anew. */
  expectThrottle(tenant: string, generation: number): void
  /** Hears of processes that have gone: what waits in throttle queues is looked after by the others. */
  noteGone(members: readonly string[]): void
}

export async function composeLimits(
  { redis, records, health, keeper, members: { id: member, policiesLeft } }: LimitEngines,
  { clock, errorsOf }: Pick<RuntimeContext, 'clock' | 'errorsOf'>,
): Promise<ComposedLimits> {
  // That the server is away is told once, by its health.
  const onError = unlessStateAway(errorsOf('admission'))
  // The client is loaded only where it is used: it would cost every start 30 ms.
  const [{ createRedisThrottle }, { createRedisLimits }, { createRecentlyFired }, { onceScript }] =
    await Promise.all([
      import('../adapters/state/redis/redis-throttle.ts'),
      import('../adapters/state/redis/redis-limits.ts'),
      import('../adapters/state/redis/recently-fired.ts'),
      import('../adapters/state/redis/scripts.ts'),
    ])
  let throttle: RedisThrottle | undefined
  let reads = 0
  return {
    throttle({ ratesOf, marginMs }) {
      throttle = createRedisThrottle({ redis, record: records, clock, ratesOf, marginMs, onError })
      return throttle
    },
    limits: (asked) =>
      createRedisLimits({
        ...asked,
        rulesName: () => `${asked.rulesName()} ${policiesLeft()}`,
        recover(subject) {
          reads += 1
          return asked.recover(subject)
        },
        redis,
        clock,
        member,
        recentlyFired: createRecentlyFired(clock),
        onError,
      }),
    health,
    keeper,
    reads: () => reads,
    async ping() {
      // It writes, because a server that has no memory left goes on answering what only reads.
      await redis.ask(onceScript, { subject: `k/ready/${member}`, name: '' }, ['begin', member, '', '1000'])
    },
    expectThrottle: (tenant, generation) => throttle?.expect(tenant, generation),
    noteGone: (members) => throttle?.noteGone(members),
    async close() {
      await keeper?.stop()
      redis.close()
    },
  }
}

/** Opens the connections to the server of the limits, without waiting for them. */
export async function openRedis(
  { url, tls, deadlineMs, slotMs, prefix, shown }: RedisStateConfig,
  { clock, log }: Pick<RuntimeContext, 'clock' | 'log'>,
  registrations: Registrations,
): Promise<ConnectedRedis> {
  const { createRedisState } = await import('../adapters/state/redis/redis-state.ts')
  const health = createStateHealth({ clock, log, shown })
  const state = createRedisState({
    url,
    tls,
    registrations,
    clock,
    deadlineMs,
    slotMs,
    prefix,
    onError: health.noteError,
  })
  return { redis: { ...state, ask: (...question) => health.ask(() => state.ask(...question)) }, health }
}

/**
 * Follows commits. Where an acceptance is refused because the record has a later generation than the limits, it would be
 * refused again and again: the listener has the state of these tenants filled anew. It hears the generations, too, in which
 * that was decided.
 */
export function followRefusals(
  commit: Store['commit'],
  onOutdated: (tenants: ReadonlySet<string>, decidedIn: readonly TenantGeneration[]) => Promise<unknown>,
): Store['commit'] {
  return async (change) => {
    const result = await commit(change)
    const outdated = result.applied ? [] : result.conflicts.filter(({ kind }) => kind === 'generation')
    if (outdated.length > 0)
      await onOutdated(new Set(outdated.map(({ key }) => key)), change.generations ?? [])
    return result
  }
}

/**
 * Puts the limits of a gateway that has its record for itself in a server.
 * @returns the limits, and the store through which everything of this gateway goes from then on
 */
export async function serveLimits(
  own: Store,
  open: (registrations: MemoryRegistrations) => OpenedRedis | Promise<OpenedRedis>,
  context: Pick<RuntimeContext, 'clock' | 'errorsOf' | 'members' | 'random'>,
): Promise<{ readonly store: Store; readonly limits: ServedLimits }> {
  const [{ createMemoryRegistrations, randomNumber }, { createOneProcessRecord }] = await Promise.all([
    import('../adapters/state/redis/memory-registrations.ts'),
    import('../adapters/state/redis/one-process-record.ts'),
  ])
  const { store, records } = createOneProcessRecord(own)
  const engines = await open(createMemoryRegistrations(randomNumber(context.random), context.members.id))
  const { expectThrottle, ...limits } = await composeLimits(
    { ...engines, records, members: context.members },
    context,
  )
  const commit = followRefusals(store.commit, async (tenants) => {
    for (const tenant of tenants) expectThrottle(tenant, (await records.generations(tenant)).throttle)
  })
  return { store: { ...store, commit }, limits }
}

/**
 * Names the keys of a gateway after its file, which nobody else writes: two gateways with one Redis and two files count
 * apart.
 */
export const stateOfFile = (
  state: RedisStateConfig,
  { name }: Pick<SqliteStore, 'name'>,
): RedisStateConfig => ({
  ...state,
  prefix: `${state.prefix}${name}:`,
})
