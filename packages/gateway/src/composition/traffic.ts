/** Composes the reading of recorded traffic, beside the gateway that writes it, and its replays. */
import type { StoreConfig } from '../config/config.ts'
import { selfAddressed } from '../config/pools.ts'
import { SluiceError } from '../errors.ts'
import { createFleetReplays } from '../http/fleet-replays.ts'
import type { Replays } from '../http/routes/replays.ts'
import type { TrafficSource } from '../ports/traffic.ts'
import { createReplays } from '../replay/replays.ts'
import { inMemory } from '../store/sqlite/database.ts'
import { openSqliteTraffic } from '../store/sqlite/traffic-source.ts'
import { trafficOf } from '../store/store-traffic.ts'
import type { Fleet } from './fleet-parts.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

// ---- recorded traffic
//
// Opens the record of a configuration to read its traffic, beside the gateway that writes it.

export { trafficOf } from '../store/store-traffic.ts'

/** @throws SluiceError INVALID_CONFIG where there is no record that another process could read */
export async function openTraffic({ path, postgres }: StoreConfig): Promise<TrafficSource> {
  if (postgres === undefined && path === inMemory)
    throw new SluiceError(
      'INVALID_CONFIG',
      'The store is in the memory of its gateway: no other process can read its traffic.',
    )
  if (postgres === undefined) return openSqliteTraffic(path)
  const { openPostgresTraffic } = await import('../store/postgres/traffic-source.ts')
  return openPostgresTraffic(postgres)
}

// ---- replays
//
// Composes the replays of this process, with those of the others in a fleet: the store that their process opens, and the
// record where that is in memory.

export type { Replays }

export function composeReplays(
  { config, policy, clock, random }: Pick<RuntimeContext, 'config' | 'policy' | 'clock' | 'random'>,
  { store }: Pick<Storage, 'store'>,
  fleet: Fleet | undefined,
): Replays {
  const own = createReplays({
    config: config.store,
    record: trafficOf(store),
    policy: policy.part,
    selfAddressed: selfAddressed(config.pools),
    clock,
    random,
  })
  return fleet === undefined ? own : createFleetReplays(own, fleet.state.peers)
}
