import type { DrillOfOne } from './drills-of-one.ts'
import type { Drill } from './fleet-drills.ts'
import type { Focus } from './fleet-settings.ts'

/** One line of the source that is replaced by another one: a mistake that is easily made. */
export interface Sabotage {
  readonly name: string
  /** Path within packages/gateway/src. */
  readonly file: string
  /** Occurs once in the file. */
  readonly from: string
  readonly to: string
  /** Gateways that run at once. @defaultValue 1 */
  readonly gateways?: number
  /** The seeds that have the traffic and the faults to show it: the others are passed over. @defaultValue all */
  readonly focus?: Focus
  /** Its seeds are run with this traffic and these faults. @defaultValue those of the seed */
  readonly drill?: Drill | DrillOfOne
}
