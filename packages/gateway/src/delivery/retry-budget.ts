/**
 * Bounds the retries of a pool to a share of its first calls, so that retries cannot multiply the load on a failing
 * provider (Beyer et al., "Site Reliability Engineering", ch. 22). Pure.
 */
import { SlicedCount } from './accounts/sliced-count.ts'

export interface RetryBudgetOptions {
  /** Retries as a share of first calls within the window. @defaultValue 0.2 */
  readonly share: number
  /** The number of processes that share the least number of retries. @defaultValue 1 */
  readonly memberCount?: (() => number) | undefined
}

const windowMs = 10_000
/** Retries always allowed within the window, by all processes together: a pool with little traffic may retry, too. */
export const leastRetries = 10

export class RetryBudget {
  readonly #share: number
  readonly #memberCount: () => number
  readonly #sent = new SlicedCount(windowMs, 10)
  readonly #repeated = new SlicedCount(windowMs, 10)
  readonly #failed = new SlicedCount(windowMs, 10)

  constructor({ share, memberCount = () => 1 }: RetryBudgetOptions) {
    this.#share = share
    this.#memberCount = memberCount
  }

  /** Counts a first call. */
  sent(now: number): void {
    this.#sent.add(now)
  }

  /** Counts a failed call. */
  failed(now: number): void {
    this.#failed.add(now)
  }

  /** Tests if no call has failed within the window: then there is no failing provider to protect. */
  isCalm(now: number): boolean {
    return this.#failed.sum(now) === 0
  }

  /** Takes one retry from the budget; false if there is none left. */
  take(now: number): boolean {
    if (this.left(now) < 1) return false
    this.#repeated.add(now)
    return true
  }

  left(now: number): number {
    return leastRetries / this.#memberCount() + this.#share * this.#sent.sum(now) - this.#repeated.sum(now)
  }
}
