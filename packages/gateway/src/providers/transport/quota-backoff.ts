/**
 * Backoff for an account whose daily quota is used up. No service says when the quota frees (it rolls over 24 hours),
 * so the pause doubles after each refusal and starts again once a message has gone through. After a restart only the
 * block itself is kept, by the account's record.
 */
import type { SendResult } from '../../ports.ts'

/** First and longest pause between two trials, ms: a day without quota costs some thirty calls, and not 17,000. */
const firstMs = 60_000
const longestMs = 3_600_000

type RateLimited = Extract<SendResult, { readonly outcome: 'rate_limited' }>

interface Block {
  waitMs: number
  /** Start of the call, epoch ms. */
  until: number
}

export class QuotaBackoff {
  /** Backoff state by account id: as many as are configured. */
  readonly #blocks = new Map<string, Block>()

  /**
   * Completes a call's result with the pause to keep, where the quota is used up. Calls that ran at the same time
   * count once, and a call that was under way when the quota ended does not reset the backoff when it is delivered.
   */
  adjust(account: string, result: SendResult, isQuota: boolean, now: number): SendResult {
    if (result.outcome === 'delivered') this.#delivered(account, now)
    return isQuota && result.outcome === 'rate_limited' ? this.#used(account, result, now) : result
  }

  #used(account: string, result: RateLimited, now: number): SendResult {
    const before = this.#blocks.get(account)
    let block = before
    if (block === undefined || now >= block.until) {
      const waitMs = before === undefined ? firstMs : Math.min(before.waitMs * 2, longestMs)
      block = { waitMs, until: now + waitMs }
      this.#blocks.set(account, block)
    }
    return { ...result, retryAfter: String(Math.ceil((block.until - now) / 1_000)) }
  }

  #delivered(account: string, now: number): void {
    const block = this.#blocks.get(account)
    if (block !== undefined && now >= block.until) this.#blocks.delete(account)
  }
}
