/**
 * The parts that a gateway has instead of its own where its limits count in a server, and those where it serves one record
 * beside others.
 */
import type { LimitsKeeper } from '../adapters/state/limits-keeper.ts'
import type { RedisLimitsOptions } from '../adapters/state/redis/redis-limits.ts'
import type { RedisConnections, RedisState } from '../adapters/state/redis/redis-state.ts'
import type { RedisTenantRateOptions, TenantRate } from '../adapters/state/redis/redis-tenant-rate.ts'
import type { RedisThrottleOptions } from '../adapters/state/redis/redis-throttle.ts'
import type { FleetAccounts } from '../delivery/accounts/fleet-accounts.ts'
import type { FleetPoolOptions } from '../delivery/accounts/fleet-pool.ts'
import type { FleetReport } from '../observability/fleet-metrics.ts'
import type { StateHealth } from '../observability/state-health.ts'
import type { Members, Notifier, Once, Peers } from '../ports/fleet.ts'
import type { RoomState, ThrottleState } from '../ports/tenants.ts'
import type { LimitState, Store } from '../ports.ts'

/** The server of the limits. */
export interface OpenedRedis {
  readonly redis: RedisState
  readonly health: StateHealth
  /** Keeps the limits while the server is away. @defaultValue nobody does */
  readonly keeper?: LimitsKeeper
}

/** The connections to the server of the limits. */
export interface ConnectedRedis extends OpenedRedis {
  readonly redis: RedisConnections
}

/** Limits that count in a server. */
export interface ServedLimits {
  /** Tells who keeps the limits while their server is away; absent where nobody does. */
  readonly keeper?: Pick<LimitsKeeper, 'keeper' | 'isAway' | 'listen'> | undefined
  throttle(options: Pick<RedisThrottleOptions, 'ratesOf' | 'marginMs'>): ThrottleState
  limits(
    options: Pick<RedisLimitsOptions, 'marginMs' | 'recover' | 'rulesName' | 'onOutdated' | 'planLate'>,
  ): LimitState
  readonly health: Pick<StateHealth, 'counts'>
  /** The number of recipients so far whose limits were read from the record. */
  reads(): number
  /** Asks the server; rejects with STATE_UNAVAILABLE. Of a cluster one node. */
  ping(): Promise<void>
  /** To be closed when nothing asks any more, and before the store. */
  close(): Promise<void>
}

/** Limiter state that several gateways share. */
export interface SharedState extends ServedLimits {
  readonly once: Once
  readonly room: RoomState
  readonly notifier: Notifier
  readonly peers: Peers
  /** Counts the WebSocket connections of tenants, as what waits. */
  readonly connections: RoomState
  /** Counts the event streams of tenants in the same way. */
  readonly streams: RoomState
  tenantRate(options: Pick<RedisTenantRateOptions, 'name' | 'marginMs' | 'counted'>): TenantRate
  /** The width of a slot of the accounts, ms. */
  readonly slotMs: number
  /** To be closed before `close`: it tells the last calls of this process. */
  accounts(options: Pick<FleetPoolOptions, 'isJudge' | 'readUse' | 'callMs'>): FleetAccounts
}

export interface Fleet {
  readonly store: Store
  readonly members: Members
  readonly state: SharedState
  readonly report: () => FleetReport
}
