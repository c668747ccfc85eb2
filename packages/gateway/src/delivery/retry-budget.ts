/**
 * How much a pool may repeat: a share of what it sends, so that repetitions cannot multiply the load on a provider
 * that is failing under it (Beyer et al., "Site Reliability Engineering", ch. 22). Pure.
 */
import { SlicedCount } from './accounts/sliced-count.ts'

export interface RetryBudgetOptions {
  /** Of the first calls within the window. @defaultValue 0.2 */
  readonly share: number
}

const windowMs = 10_000
/** Repetitions within the window that are allowed in any case: a pool that sends little may repeat, too. */
export const leastRetries = 10

export class RetryBudget {
  readonly #share: number
  readonly #sent = new SlicedCount(windowMs, 10)
  readonly #repeated = new SlicedCount(windowMs, 10)
  readonly #failed = new SlicedCount(windowMs, 10)

  constructor({ share }: RetryBudgetOptions) {
    this.#share = share
  }

  /** A first call was made. */
  sent(now: number): void {
    this.#sent.add(now)
  }

  /** A call failed. */
  failed(now: number): void {
    this.#failed.add(now)
  }

  /** Whether nothing has failed within the window: then there is no load to keep from a provider in trouble. */
  isCalm(now: number): boolean {
    return this.#failed.sum(now) === 0
  }

  /** Whether one more may be repeated; then it is counted. */
  take(now: number): boolean {
    if (this.left(now) < 1) return false
    this.#repeated.add(now)
    return true
  }

  left(now: number): number {
    return leastRetries + this.#share * this.#sent.sum(now) - this.#repeated.sum(now)
  }
}
