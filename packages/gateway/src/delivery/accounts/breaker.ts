/**
 * The circuit breaker of an account (Nygard, "Release It!", 2007).
 *
 * - closed: calls pass. It opens when too large a share of the last calls failed, or too many in a row.
 * - open: no calls until the cool-down is over.
 * - half open: one probe is in flight. Success closes the breaker; failure opens it for twice as long.
 *
 * The share alone misses two cases: an account with so few calls that none is within the window, and, for a while, an
 * account that fails after much successful traffic. Pure: the caller passes the events and the time.
 */
import { SlicedCount } from './sliced-count.ts'

export interface BreakerPolicy {
  /** Share of failed calls that opens it. @defaultValue 0.5 */
  readonly failures: number
  /** Minimum of calls within the window before the share applies. @defaultValue 10 */
  readonly of: number
  /** @defaultValue 10_000 ms */
  readonly withinMs: number
  /** Consecutive failed calls that open it, however long they took. @defaultValue 10 */
  readonly inARow: number
  /** Duration of the first cool-down. @defaultValue 5_000 ms */
  readonly coolDownMs: number
  /** @defaultValue 60_000 ms */
  readonly coolDownMaxMs: number
}

export const defaultBreakerPolicy: BreakerPolicy = {
  failures: 0.5,
  of: 10,
  withinMs: 10_000,
  inARow: 10,
  coolDownMs: 5_000,
  coolDownMaxMs: 60_000,
}

export type BreakerStatus = 'closed' | 'open' | 'half_open'

/** State that outlives a restart. */
export interface BreakerRecord {
  readonly openUntil: number
  readonly coolDownMs: number
}

const slices = 10

export class Breaker {
  readonly #policy: BreakerPolicy
  readonly #calls: SlicedCount
  readonly #failures: SlicedCount
  #status: BreakerStatus = 'closed'
  #openUntil = 0
  /** Consecutive failed calls. */
  #row = 0
  #coolDownMs: number

  constructor(policy: BreakerPolicy) {
    this.#policy = policy
    this.#calls = new SlicedCount(policy.withinMs, slices)
    this.#failures = new SlicedCount(policy.withinMs, slices)
    this.#coolDownMs = policy.coolDownMs
  }

  get status(): BreakerStatus {
    return this.#status
  }

  get openUntil(): number {
    return this.#openUntil
  }

  /** Returns the instant from which a call may pass; `Infinity` while a probe is in flight. */
  freeAt(now: number): number {
    switch (this.#status) {
      case 'closed':
        return now
      case 'open':
        return Math.max(now, this.#openUntil)
      case 'half_open':
        return Number.POSITIVE_INFINITY
    }
  }

  /** Begins a call that `freeAt` admitted; true if it is the probe. */
  begin(): boolean {
    if (this.#status !== 'open') return false
    this.#status = 'half_open'
    return true
  }

  /** Called when the probe was not made after all. */
  abandon(): void {
    this.#status = 'open'
  }

  /** Counts an ended call; returns the change that it caused. Calls begun before it opened are ignored. */
  end(now: number, probe: boolean, failed: boolean): 'opened' | 'closed' | undefined {
    if (probe) return this.#judge(now, failed)
    if (this.#status !== 'closed') return undefined
    this.#calls.add(now)
    if (!failed) {
      this.#row = 0
      return undefined
    }
    this.#failures.add(now)
    this.#row += 1
    return this.#row >= this.#policy.inARow || this.#failsTooOften(now) ? this.#open(now) : undefined
  }

  #failsTooOften(now: number): boolean {
    const calls = this.#calls.sum(now)
    return calls >= this.#policy.of && this.#failures.sum(now) >= calls * this.#policy.failures
  }

  #judge(now: number, failed: boolean): 'opened' | 'closed' {
    if (failed) {
      this.#coolDownMs = Math.min(this.#coolDownMs * 2, this.#policy.coolDownMaxMs)
      return this.#open(now)
    }
    this.#status = 'closed'
    this.#coolDownMs = this.#policy.coolDownMs
    return 'closed'
  }

  #open(now: number): 'opened' {
    this.#status = 'open'
    this.#openUntil = now + this.#coolDownMs
    this.#calls.clear()
    this.#failures.clear()
    this.#row = 0
    return 'opened'
  }

  /** Returns its state; `undefined` while closed. A probe whose answer is lost with the process is made again. */
  record(): BreakerRecord | undefined {
    if (this.#status === 'closed') return undefined
    return { openUntil: this.#openUntil, coolDownMs: this.#coolDownMs }
  }

  restore({ openUntil, coolDownMs }: BreakerRecord): void {
    this.#status = 'open'
    this.#openUntil = openUntil
    this.#coolDownMs = coolDownMs
  }
}
