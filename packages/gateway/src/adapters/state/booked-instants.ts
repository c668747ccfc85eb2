/**
 * The instants ahead that the ids of one subject hold. One that passed without a release is dropped in passing: the
 * release may have failed, and nobody asks for it any more.
 */

/** Ids are looked through for instants that have passed when there are this many, and then each time they have doubled. */
const idsMin = 64

export class BookedInstants {
  /** At most twice as many as were ahead at the last look, or the least. */
  readonly #instants: Map<string, number>
  #idsMax: number

  /** @param instants id and instant of each, epoch ms */
  constructor(instants: Iterable<readonly [id: string, at: number]> = []) {
    this.#instants = new Map(instants)
    this.#idsMax = Math.max(idsMin, 2 * this.#instants.size)
  }

  get size(): number {
    return this.#instants.size
  }

  get(id: string): number | undefined {
    return this.#instants.get(id)
  }

  set(id: string, at: number, now: number): void {
    this.#instants.set(id, at)
    if (this.#instants.size > this.#idsMax) this.#dropPassed(now)
  }

  delete(id: string): boolean {
    return this.#instants.delete(id)
  }

  /** Lists the ids whose instants are ahead, in no order. */
  ahead(now: number): string[] {
    return [...this.#instants].flatMap(([id, at]) => (at > now ? [id] : []))
  }

  /** True if another id than this one holds an instant ahead. */
  hasOther(own: string, now: number): boolean {
    for (const [id, at] of this.#instants) if (at > now && id !== own) return true
    return false
  }

  #dropPassed(now: number): void {
    for (const [id, at] of this.#instants) if (at <= now) this.#instants.delete(id)
    this.#idsMax = Math.max(idsMin, 2 * this.#instants.size)
  }
}
