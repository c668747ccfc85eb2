/** The proof `differentials` compares stores and kinds of state in Redis, each with its model in memory. */
import type { ComparedState } from '../../packages/gateway/test/adapters/state/redis/compared.ts'
import type { Engine } from '../../packages/gateway/test/adapters/state/redis/open.ts'

export type Kind = (
  | { readonly state: 'store'; readonly engine: 'postgres' | 'sqlite' }
  /** A store of several processes, of which some die. */
  | { readonly state: 'fleet'; readonly engine: 'postgres' }
  | { readonly state: ComparedState; readonly engine: Engine }
) & {
  /** Its part of all operations. */
  readonly share: number
  /** Operations of one sequence: long enough for all to meet, short enough that comparing everything stays cheap. */
  readonly perSequence: number
}

export interface Sequence {
  readonly kind: string
  readonly seed: number
  readonly operations: number
}

/** A sequence with the operations that were compared, or with its first difference. */
export type Outcome = Sequence & { readonly difference?: string }

export const kinds: Readonly<Record<string, Kind>> = {
  'store-postgres': { state: 'store', engine: 'postgres', share: 0.2, perSequence: 250 },
  'fleet-postgres': { state: 'fleet', engine: 'postgres', share: 0.1, perSequence: 400 },
  'store-sqlite': { state: 'store', engine: 'sqlite', share: 0.2, perSequence: 250 },
  'limits-redis': { state: 'limits', engine: 'redis', share: 0.15, perSequence: 250 },
  'limits-cluster': { state: 'limits', engine: 'redis-cluster', share: 0.08, perSequence: 500 },
  'throttle-redis': { state: 'throttle', engine: 'redis', share: 0.08, perSequence: 250 },
  'throttle-cluster': { state: 'throttle', engine: 'redis-cluster', share: 0.05, perSequence: 500 },
  'room-redis': { state: 'room', engine: 'redis', share: 0.05, perSequence: 250 },
  'room-cluster': { state: 'room', engine: 'redis-cluster', share: 0.02, perSequence: 500 },
  'once-redis': { state: 'once', engine: 'redis', share: 0.05, perSequence: 250 },
  'once-cluster': { state: 'once', engine: 'redis-cluster', share: 0.02, perSequence: 500 },
}
