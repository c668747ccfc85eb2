/**
 * The circuit breaker of an account: closed while it works; open, and out of the pool, when too large a share of its
 * last calls failed, or too many of them one after the other; half open while one probe tells whether it works again
 * (Nygard, "Release It!", 2007). A failed probe opens it for twice as long. The share alone is blind twice: to an
 * account with few calls, of which none is within the window, and for a while to one that dies after much traffic.
 * Pure: the caller says what happened and when.
 */
import { SlicedCount } from './sliced-count.ts'

export interface BreakerPolicy {
  /** The share of failed calls that opens it. @defaultValue 0.5 */
  readonly failures: number
  /** Calls within the window before their share counts. @defaultValue 10 */
  readonly of: number
  /** @defaultValue 10_000 ms */
  readonly withinMs: number
  /** Failed calls one after the other that open it, however long they took. @defaultValue 10 */
  readonly inARow: number
  /** How long it stays open the first time. @defaultValue 5_000 ms */
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

/** What outlives a restart. */
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
  /** Failed calls since the last one that did not fail. */
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

  /** From when on it lets a call through; never while a probe is under way. */
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

  /** A call begins that `freeAt` admitted; whether it is the probe. */
  begin(): boolean {
    if (this.#status !== 'open') return false
    this.#status = 'half_open'
    return true
  }

  /** The probe was not made after all. */
  abandon(): void {
    this.#status = 'open'
  }

  /** A call has ended. Answers the change that it made. What began before it opened says nothing new. */
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

  /** `undefined` while it is closed. A probe whose answer is lost with the process is made again. */
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
