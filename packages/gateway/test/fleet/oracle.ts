/** Defines the borders of a run, which its oracles watch: nothing from within the gateway is among them. */
import type { Message } from '../../src/ports.ts'
import type { Client } from './client.ts'
import type { Machine } from './process.ts'
import type { Settings } from './settings.ts'
import type { Call, SimService } from './sim-provider.ts'
import type { SimRecord } from './sim-record.ts'
import type { World } from './world.ts'

export interface Watched {
  readonly world: World
  readonly settings: Settings
  readonly client: Client
  readonly service: SimService
  readonly record: Pick<SimRecord, 'observers'>
  readonly machine: Machine
  /** Several gateways share the record. @defaultValue false */
  readonly isFleet?: boolean
}

/** The authors of a message: of a digest, those of its items. */
export function actorsOf({ data }: Pick<Message, 'data'>): readonly string[] {
  const items = data?.items
  if (!Array.isArray(items)) return [String(data?.author ?? '')]
  return [...new Set(items.map((item) => String((item as { actor?: string }).actor ?? '')))]
}

/**
 * The instant from which nothing can keep a call from its recipient any more. One gateway looks when it hands the call to
 * the provider's adapter; of several, each looks again when the adapter writes.
 */
export function decidedAt({ isFleet = false }: Pick<Watched, 'isFleet'>, { handedAt, at }: Call): number {
  return isFleet ? at : handedAt
}
