/** Opens the record of a configuration to read its traffic, beside the gateway that writes it. */
import type { StoreConfig } from '../config/config.ts'
import { SluiceError } from '../errors.ts'
import type { TrafficSource } from '../ports/traffic.ts'
import { inMemory } from '../store/sqlite/database.ts'
import { openSqliteTraffic } from '../store/sqlite/traffic-source.ts'

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
