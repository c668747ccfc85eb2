/**
 * One timer for the heartbeats and token expiries of all connections. Each has one entry, its next instant;
 * entries of closed connections are dropped when they come up.
 */
import { Heap } from '../../heap.ts'
import type { Clock } from '../../ports.ts'

export interface Mortal {
  /** Handles what is due; returns the next instant, undefined once the connection is closed. */
  onDeadline(now: number): number | undefined
}

export class Deadlines {
  readonly #clock: Pick<Clock, 'now' | 'at'>
  readonly #heap = new Heap<Mortal>()
  #disarm: (() => void) | undefined
  #armedFor = Number.POSITIVE_INFINITY

  constructor(clock: Pick<Clock, 'now' | 'at'>) {
    this.#clock = clock
  }

  add(at: number, mortal: Mortal): void {
    this.#heap.push(at, mortal)
    this.#arm()
  }

  stop(): void {
    this.#disarm?.()
    this.#armedFor = Number.NEGATIVE_INFINITY
  }

  #arm(): void {
    const next = this.#heap.leastKey
    if (next === undefined || next >= this.#armedFor) return
    this.#disarm?.()
    this.#armedFor = next
    this.#disarm = this.#clock.at(next, () => {
      this.#armedFor = Number.POSITIVE_INFINITY
      this.#wake()
    })
  }

  #wake(): void {
    const now = this.#clock.now()
    while (this.#heap.leastKey !== undefined && this.#heap.leastKey <= now) {
      const mortal = this.#heap.pop()!
      const next = mortal.onDeadline(now)
      if (next !== undefined) this.#heap.push(Math.max(next, now + 1), mortal)
    }
    this.#arm()
  }
}
