/** Counts what the record answers to one process of a fleet, for its metrics. */
import type { FleetReport } from '../observability/fleet-metrics.ts'
import type { GivenRights, TakenOver } from '../ports.ts'

export class FleetCounts {
  readonly #rights = { given: 0, refused: 0 }
  readonly #takenOver = { may_have_left: 0, waiting: 0 }
  #outdated = 0
  #servers = 0

  noteRights(asked: number, { refused }: GivenRights): void {
    this.#rights.refused += refused.size
    this.#rights.given += asked - refused.size
  }

  readonly noteTakenOver = (taken: readonly TakenOver[]): readonly TakenOver[] => {
    for (const { mayHaveLeft } of taken) this.#takenOver[mayHaveLeft ? 'may_have_left' : 'waiting'] += 1
    return taken
  }

  /** Notes a change that was refused because the state of its tenant was filled elsewhere. */
  noteOutdated(): void {
    this.#outdated += 1
  }

  /** Notes a new life of a server of the limits. */
  noteServer(): void {
    this.#servers += 1
  }

  report(): Omit<FleetReport, 'gateways' | 'clockErrorMs'> {
    return {
      rights: this.#rights,
      takenOver: this.#takenOver,
      outdated: this.#outdated,
      servers: this.#servers,
    }
  }
}
