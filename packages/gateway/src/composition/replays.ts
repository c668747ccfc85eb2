/** Composes the replays of this process: the store that their process opens, and the record where that is in memory. */
import { selfAddressed } from '../config/pools.ts'
import type { Replays } from '../http/routes/replays.ts'
import { createReplays } from '../replay/replays.ts'
import { trafficOf } from '../store/store-traffic.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

export type { Replays }

export function composeReplays(
  { config, policy, clock, random }: Pick<RuntimeContext, 'config' | 'policy' | 'clock' | 'random'>,
  { store }: Pick<Storage, 'store'>,
): Replays {
  return createReplays({
    config: config.store,
    record: trafficOf(store),
    policy: policy.part,
    selfAddressed: selfAddressed(config.pools),
    clock,
    random,
  })
}
