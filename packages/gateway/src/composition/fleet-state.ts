/**
 * Composes the limiter state that several gateways share, over engines that are open: the record of the store, and a server
 * that runs the scripts of the limits. What the record tells of both reaches the connections before the limits are asked.
 */
import type { LimitsKeeper } from '../adapters/state/limits-keeper.ts'
import type { RedisBus } from '../adapters/state/redis/redis-bus.ts'
import type { RedisState } from '../adapters/state/redis/redis-state.ts'
import { createFleetAccounts } from '../delivery/accounts/fleet-accounts.ts'
import { unlessStateAway } from '../errors.ts'
import type { StateHealth } from '../observability/state-health.ts'
import { defaultSlotMs } from '../ports/account-slots.ts'
import type { Members } from '../ports/fleet.ts'
import type { NewestRegistrations } from '../ports/limiter.ts'
import type { TenantRecords } from '../ports/tenants.ts'
import type { Store } from '../ports.ts'
import { AccountBirths } from './account-births.ts'
import { FleetCounts } from './fleet-counts.ts'
import type { Fleet, SharedState } from './fleet-parts.ts'
import type { RuntimeContext } from './runtime-context.ts'
import { composeLimits, followRefusals } from './served-limits.ts'

export interface FleetEngines {
  readonly store: Store
  readonly members: Members
  readonly registrations: NewestRegistrations
  readonly records: TenantRecords
  readonly redis: RedisState
  readonly bus: RedisBus
  /** The width of a slot of the accounts, ms. @defaultValue `defaultSlotMs` */
  readonly slotMs?: number | undefined
  /** Precedes every channel of the bus. @defaultValue 'sl:' */
  readonly prefix?: string | undefined
  readonly health: Pick<StateHealth, 'counts' | 'noteError'>
  /** Keeps the limits while their server is away. @defaultValue nobody does */
  readonly keeper?: LimitsKeeper | undefined
  /** How wrong the clock of this process may be beside that of the record, ms. @defaultValue not known */
  readonly clockErrorMs?: (() => number | undefined) | undefined
}

interface ComposedState extends SharedState {
  /** Reads and returns the generations of a tenant's state: its values of earlier ones are filled anew. */
  readonly expectGenerations: (tenant: string) => ReturnType<TenantRecords['generations']>
}

export async function composeFleet(
  engines: FleetEngines,
  context: Pick<RuntimeContext, 'clock' | 'errorsOf'>,
): Promise<Fleet> {
  const { store, members, registrations, redis } = engines
  const onError = context.errorsOf('store')
  const births = new AccountBirths(() => expectNewest())
  const counts = new FleetCounts()
  const expect: (...servers: Parameters<RedisState['expect']>) => void = (servers) => {
    if (!redis.expect(servers)) return
    counts.noteServer()
    births.noteNewer()
  }
  const expectNewest = (): Promise<void> =>
    registrations.newest().then(expect, (error: unknown) => onError('read the servers of limits', error))
  const { expectGenerations, ...state } = await composeState({ ...engines, births }, context)
  // A process that still has a deposed server hears of it with the right to send, before the limits are asked, and
  // where an acceptance is refused because its state was filled elsewhere.
  const begin: Store['begin'] = async (requests) => {
    const given = await store.begin(requests)
    counts.noteRights(requests.length, given)
    if (given.servers !== undefined) expect(given.servers)
    return given
  }
  const commit = followRefusals(store.commit, async (tenants, decidedIn) => {
    counts.noteOutdated()
    const [, ...areBehind] = await Promise.all([
      expectNewest(),
      ...Array.from(tenants, (tenant) =>
        expectGenerations(tenant).then(
          (newest) => decidedIn.some((of) => of.tenant === tenant && of.number > newest[of.state]),
          (error: unknown) => onError('read the generations', error),
        ),
      ),
    ])
    if (!areBehind.includes(true)) return
    // The record has not given that generation: it was made anew, or restored from a backup, and the server holds values of
    // the one before. No fill of a tenant would get ahead of them for sure, and those of recipients may lack sends.
    await registrations
      .renumber()
      .then(expectNewest, (error: unknown) => onError('number the servers of limits anew', error))
  })
  const takeOver: Store['takeOver'] = (...asked) => store.takeOver(...asked).then(counts.noteTakenOver)
  const report = () => ({
    ...counts.report(),
    gateways: members.count(),
    clockErrorMs: engines.clockErrorMs?.(),
  })
  return { store: { ...store, begin, commit, takeOver }, members, state, report }
}

async function composeState(
  engines: FleetEngines & { readonly births: AccountBirths },
  { clock, errorsOf }: Pick<RuntimeContext, 'clock' | 'errorsOf'>,
): Promise<ComposedState> {
  const { members, records, redis, bus, prefix, slotMs = defaultSlotMs, health, keeper, births } = engines
  const { id: member } = members
  const report = errorsOf('admission')
  // That the server is away is told once, by its health.
  const onError = unlessStateAway(report)
  // The client is loaded only where it is used: it would cost every start 30 ms.
  const [
    { createRedisRoom },
    { createRedisOnce },
    { createRedisAccountSlots },
    { createRedisNotifier },
    { createRedisPeers },
    { createRedisConnections },
    { createRedisTenantRate },
  ] = await Promise.all([
    import('../adapters/state/redis/redis-room.ts'),
    import('../adapters/state/redis/redis-once.ts'),
    import('../adapters/state/redis/redis-account-slots.ts'),
    import('../adapters/state/redis/redis-notifier.ts'),
    import('../adapters/state/redis/redis-peers.ts'),
    import('../adapters/state/redis/redis-connections.ts'),
    import('../adapters/state/redis/redis-tenant-rate.ts'),
  ])
  const once = createRedisOnce({ redis, member })
  const room = createRedisRoom({
    redis,
    record: records,
    clock,
    member,
    onError: (error) => onError('count the room of a tenant', error),
  })
  const { expectThrottle, noteGone, ...limits } = await composeLimits(
    { redis, records, health, keeper, members },
    { clock, errorsOf },
  )
  const spoken = { bus, member, prefix, onError: health.noteError }
  const [notifier, peers] = await Promise.all([createRedisNotifier(spoken), createRedisPeers(spoken)])
  const connections = createRedisConnections({
    redis,
    peers,
    clock,
    member,
    onError: (error) => onError('count the connections of a tenant', error),
  })
  const streams = createRedisConnections({
    redis,
    peers,
    clock,
    member,
    name: 'streams',
    onError: (error) => onError('count the event streams of a tenant', error),
  })
  for (const part of [peers, room, connections]) members.onDeath(part.noteGone)
  members.onDeath(streams.noteGone)
  members.onDeath(noteGone)
  return {
    ...limits,
    once,
    room,
    notifier,
    peers,
    connections,
    streams,
    tenantRate: ({ name, marginMs, counted }) =>
      createRedisTenantRate({ name, redis, peers, clock, member, marginMs, counted, onError }),
    slotMs,
    accounts: ({ isJudge, readUse, callMs }) =>
      createFleetAccounts({
        isJudge,
        readUse,
        callMs,
        slotMs,
        slots: births.followed(createRedisAccountSlots({ redis })),
        clock,
        member,
        onError: (error) => onError('ask for the accounts of a pool', error),
      }),
    async expectGenerations(tenant) {
      const newest = await records.generations(tenant)
      expectThrottle(tenant, newest.throttle)
      room.expect(tenant, newest.room)
      return newest
    },
    async close() {
      once.close()
      await Promise.all([room.close(), connections.close(), streams.close(), peers.close()])
      bus.close()
      await limits.close()
    },
  }
}
