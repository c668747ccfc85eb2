/** The parts that a gateway has instead of its own where it serves one record beside others. */
import type { RedisThrottleOptions } from '../adapters/state/redis/redis-throttle.ts'
import type { Members } from '../member-port.ts'
import type { StateHealth } from '../observability/state-health.ts'
import type { Once } from '../once-port.ts'
import type { Store } from '../ports.ts'
import type { RoomState } from '../room-port.ts'
import type { ThrottleState } from '../throttle-port.ts'

/** Limiter state that several gateways share. */
export interface SharedState {
  readonly once: Once
  readonly room: RoomState
  throttle(options: Pick<RedisThrottleOptions, 'ratesOf' | 'marginMs'>): ThrottleState
  readonly health: Pick<StateHealth, 'counts'>
  /** Asks the server; rejects with STATE_UNAVAILABLE. Of a cluster one node. */
  ping(): Promise<void>
  /** To be closed when nothing asks any more, and before the store. */
  close(): Promise<void>
}

export interface Fleet {
  readonly store: Store
  readonly members: Members
  readonly state: SharedState
}
