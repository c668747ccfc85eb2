/**
 * Who may write next. A message for a thousand connections is a thousand system calls, and whoever else has something
 * to say must not stand behind all of them: tenants take turns, a few connections each, and between rounds the event
 * loop sees to everything else. What gathers for a connection until its turn leaves in one system call, so that the
 * more there is to do, the cheaper it becomes.
 */
import type { Clock } from '../../ports.ts'

export interface Writer {
  readonly tenant: string
  /** Writes what has gathered. */
  flush(): void
}

/** Connections of one tenant before the next one's turn. */
const turnMax = 8
/** Connections before the turn of the event loop: a quarter of a millisecond. */
const roundMax = 32

export class Flusher {
  readonly #soon: Clock['soon']
  /** Connections with something to write, by tenant, in the order of the tenants' turns. */
  readonly #waiting = new Map<string, Writer[]>()
  #woken = false

  constructor(clock: Pick<Clock, 'soon'>) {
    this.#soon = clock.soon
  }

  /** This connection has something to write; told once until it is flushed. */
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
      // Behind the others, with what is left.
      this.#waiting.delete(tenant)
      const turn = writers.splice(0, turnMax)
      if (writers.length > 0) this.#waiting.set(tenant, writers)
      for (const writer of turn) writer.flush()
      written += turn.length
    }
    if (this.#waiting.size > 0) this.#call()
  }
}
