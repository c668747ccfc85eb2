/**
 * How long an account is left alone whose quota of a day is used up. No service says when it frees (it rolls over 24
 * hours), so it is learnt: twice as long after each refusal, from the beginning once a message has gone through.
 * Nothing outlives a restart but the block itself, which the dispatcher keeps.
 */
import type { SendResult } from '../../ports.ts'

/** First and longest time between two trials, ms: a day without room costs some thirty calls, and not 17,000. */
const firstMs = 60_000
const longestMs = 3_600_000

type RateLimited = Extract<SendResult, { readonly outcome: 'rate_limited' }>

interface Block {
  waitMs: number
  /** Epoch ms. */
  until: number
}

export class QuotaBackoff {
  /** By account id: as many as are configured. */
  readonly #blocks = new Map<string, Block>()

  /**
   * What a call came to, with how long to wait where it says that the quota is used up. Calls of one moment count
   * once, and one that was under way when the quota ended says nothing when it is delivered.
   */
  heard(account: string, result: SendResult, isQuota: boolean, now: number): SendResult {
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
