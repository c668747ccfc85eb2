/**
 * Until when calls must have ended. Calls that begin at one instant and may take equally long share one signal and
 * one timer, which is taken back when the last of them has ended: with a timer and a signal for each call these would
 * be a third of what calling costs.
 */
import type { Clock } from '../ports.ts'

export interface Deadline {
  /** Aborts when the time is over. */
  readonly signal: AbortSignal
  /** One of the calls has ended. */
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

/** Answers the deadline of a call that begins now and may take so long; `end` is to be called once. */
export function createDeadlines(clock: Pick<Clock, 'now' | 'at'>): (timeoutMs: number) => Deadline {
  let last: SharedDeadline | undefined

  return (timeoutMs) => {
    const at = clock.now() + timeoutMs
    if (last === undefined || last.at !== at || last.signal.aborted) last = new SharedDeadline(clock, at)
    last.begin()
    return last
  }
}
