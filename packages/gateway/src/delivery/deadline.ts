/**
 * Deadlines of calls. Calls that begin at the same instant with the same timeout share one AbortSignal and one timer,
 * which is cancelled when the last of them has ended: a timer and a signal per call would be a third of the cost of a
 * call.
 */
import type { Clock } from '../ports.ts'

export interface Deadline {
  /** Aborts at the deadline. */
  readonly signal: AbortSignal
  /** Marks one of the calls as ended. */
  end(): void
}

class SharedDeadline implements Deadline {
  readonly at: number
  readonly #controller = new AbortController()
  readonly #clock: Pick<Clock, 'at'>
  #calls = 0
  #disarm: (() => void) | undefined

  constructor(clock: Pick<Clock, 'at'>, at: number) {
    this.#clock = clock
    this.at = at
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  begin(): void {
    this.#calls += 1
    this.#disarm ??= this.#clock.at(this.at, () => this.#controller.abort())
  }

  end(): void {
    this.#calls -= 1
    if (this.#calls > 0) return
    this.#disarm?.()
    this.#disarm = undefined
  }
}

/** Returns a function that gives the deadline of a call beginning now. Call `end` of each deadline once. */
export function createDeadlines(clock: Pick<Clock, 'now' | 'at'>): (timeoutMs: number) => Deadline {
  let last: SharedDeadline | undefined

  return (timeoutMs) => {
    const at = clock.now() + timeoutMs
    if (last === undefined || last.at !== at || last.signal.aborted) last = new SharedDeadline(clock, at)
    last.begin()
    return last
  }
}
