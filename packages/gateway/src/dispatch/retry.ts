/** When to try again: what a provider asked for, or exponential backoff with full jitter. Pure. */

export interface RetryPolicy {
  /** @defaultValue 1_000 ms */
  readonly baseMs: number
  /** @defaultValue 300_000 ms */
  readonly capMs: number
  /** Calls to a provider before a notification becomes a dead letter. @defaultValue 6 */
  readonly attemptsMax: number
  /** How many repetitions there may be, as a share of first calls. @defaultValue 0.2 */
  readonly budget: number
}

export const defaultRetryPolicy: RetryPolicy = {
  baseMs: 1_000,
  capMs: 300_000,
  attemptsMax: 6,
  budget: 0.2,
}

/**
 * Full jitter: uniform between nothing and the exponential bound, which spreads the retries of many.
 * Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
 */
export function backoffMs(policy: RetryPolicy, attempt: number, chance: number): number {
  return Math.floor(chance * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1)))
}

export interface RetryAfter {
  readonly ms: number
  /** Why it is not what the provider wrote. */
  readonly note?: 'missing' | 'invalid' | 'clamped'
}

const dayMs = 86_400_000
/** The three forms of an HTTP date (RFC 9110, 5.6.7): nothing else that `Date.parse` would take. */
const httpDate =
  /^(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT|[A-Z][a-z]+day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4})$/

/** `Retry-After` to the letter: seconds or an HTTP date (RFC 9110, 10.2.3); above a day it is cut to a day. */
export function parseRetryAfter(value: string | undefined, now: number, defaultMs: number): RetryAfter {
  if (value === undefined || value.trim() === '') return { ms: defaultMs, note: 'missing' }
  const text = value.trim()
  let ms: number
  if (/^\d+$/.test(text)) {
    ms = Number(text) * 1_000
  } else if (httpDate.test(text)) {
    // The asctime form carries no zone, and means GMT.
    const parsed = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
    if (Number.isNaN(parsed)) return { ms: defaultMs, note: 'invalid' }
    ms = Math.max(0, parsed - now)
  } else {
    return { ms: defaultMs, note: 'invalid' }
  }
  return ms > dayMs ? { ms: dayMs, note: 'clamped' } : { ms }
}
