/**
 * Writes to connections in fair order. A message to a thousand connections is a thousand system calls, and
 * other messages must not wait for all of them: tenants take turns (round robin), a few connections each, and
 * the event loop runs between rounds. The frames that gather for a connection until its turn leave in one
 * system call, so writing becomes cheaper under load.
 */
import type { Clock } from '../../ports.ts'

export interface Writer {
  readonly tenant: string
  /** Writes the gathered frames. */
  flush(): void
}

/** Connections of one tenant in one turn. */
const turnMax = 8
/** Connections in one round: a quarter of a millisecond. */
const roundMax = 32

export class Flusher {
  readonly #soon: Clock['soon']
  /** Connections with frames to write, by tenant, in the order of the tenants' turns. */
  readonly #waiting = new Map<string, Writer[]>()
  #woken = false

  constructor(clock: Pick<Clock, 'soon'>) {
    this.#soon = clock.soon
  }

  /** Queues a connection that has frames to write; called once until it is flushed. */
  wake(writer: Writer): void {
    const writers = this.#waiting.get(writer.tenant)
    if (writers === undefined) this.#waiting.set(writer.tenant, [writer])
    else writers.push(writer)
    this.#call()
  }

  #call(): void {
    if (this.#woken) return
    this.#woken = true
    this.#soon(() => {
      this.#woken = false
      this.#round()
    })
  }

  #round(): void {
    for (let written = 0; written < roundMax; ) {
      const [next] = this.#waiting
      if (next === undefined) return
      const [tenant, writers] = next
      // A tenant with connections left goes to the end.
      this.#waiting.delete(tenant)
      const turn = writers.splice(0, turnMax)
      if (writers.length > 0) this.#waiting.set(tenant, writers)
      for (const writer of turn) writer.flush()
      written += turn.length
    }
    if (this.#waiting.size > 0) this.#call()
  }
}
