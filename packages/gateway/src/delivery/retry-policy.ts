/** Computes retry delays: the provider's Retry-After, or exponential backoff with full jitter. Pure. */
import type { RetryAfter } from '../ports/accounts.ts'
import type { SendResult } from '../ports.ts'

export interface RetryPolicy {
  /** @defaultValue 1_000 ms */
  readonly baseMs: number
  /** @defaultValue 300_000 ms */
  readonly capMs: number
  /** Calls before a notification becomes a dead letter, unless one of the two kinds below applies. @defaultValue 6 */
  readonly attemptsMax: number
  /** Retry budget, as a share of first calls. @defaultValue 0.2 */
  readonly budget: number
  /** Retries when the recipient's mail server greylists. @defaultValue from 5 min up to 4 h, for 4 days */
  readonly greylisting: Patience
  /** Retries when the called service is down, maybe for hours. @defaultValue from 1 s up to 15 min, for 3 days */
  readonly outage: Patience
}

/** Retry policy for one kind of failure, bounded by time instead of a number of attempts. */
export interface Patience {
  /** Minimum first delay; it doubles with each attempt, up to the cap. */
  readonly baseMs: number
  readonly capMs: number
  /** Time from the first call to the last, ms. After it the notification is a dead letter. */
  readonly forMs: number
  /** Maximum of calls, where the configuration names one. @defaultValue no maximum besides the time */
  readonly attemptsMax?: number
}

/**
 * Greylisting servers usually ask for 5 min (RFC 6647, 2.3 knows 1 min to 24 h); mail is given up after four to five
 * days (RFC 5321, 4.5.4.1, which also advises 30 min between two attempts).
 */
const defaultGreylisting: Patience = { baseMs: 300_000, capMs: 14_400_000, forMs: 345_600_000 }
/** A service that is down is retried soon at first, because most are back at once, and then ever more rarely. */
const defaultOutage: Patience = { baseMs: 1_000, capMs: 900_000, forMs: 259_200_000 }

export const defaultRetryPolicy: RetryPolicy = {
  baseMs: 1_000,
  capMs: 300_000,
  attemptsMax: 6,
  budget: 0.2,
  greylisting: defaultGreylisting,
  outage: defaultOutage,
}

/** Block after a 429 without a valid Retry-After, ms. */
export const defaultBlockMs = 5_000

/**
 * Computes exponential backoff with full jitter: uniform between zero and the exponential bound, which spreads
 * retries. Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
 */
export function backoffMs(policy: RetryPolicy, attempt: number, chance: number): number {
  return Math.floor(chance * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1)))
}

/**
 * Computes backoff of the doubled delay plus up to half of it, and never shorter: a greylisting server refuses a
 * retry that comes too early.
 */
export function patientMs(patience: Patience, attempt: number, chance: number): number {
  return Math.floor((1 + chance / 2) * Math.min(patience.capMs, patience.baseMs * 2 ** (attempt - 1)))
}

const dayMs = 86_400_000
/** The three forms of an HTTP date (RFC 9110, 5.6.7): other strings that `Date.parse` accepts are refused. */
const httpDate =
  /^(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT|[A-Z][a-z]+day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4})$/

/** Parses `Retry-After`: seconds or an HTTP date (RFC 9110, 10.2.3); more than a day is clamped to a day. */
export function parseRetryAfter(value: string | undefined, now: number, defaultMs: number): RetryAfter {
  if (value === undefined || value.trim() === '') return { ms: defaultMs, note: 'missing' }
  const text = value.trim()
  let ms: number
  if (/^\d+$/.test(text)) {
    ms = Number(text) * 1_000
  } else if (httpDate.test(text)) {
    // The asctime form has no zone and means GMT.
    const parsed = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
    if (Number.isNaN(parsed)) return { ms: defaultMs, note: 'invalid' }
    ms = Math.max(0, parsed - now)
  } else {
    return { ms: defaultMs, note: 'invalid' }
  }
  return ms > dayMs ? { ms: dayMs, note: 'clamped' } : { ms }
}

/**
 * Converts an HTTP date in Retry-After from the provider's wall clock to the process's time line; other values stay.
 */
export function retryAfterOnLine(result: SendResult, aheadMs: number): SendResult {
  if (aheadMs === 0 || !('retryAfter' in result) || result.retryAfter === undefined) return result
  const text = result.retryAfter.trim()
  if (!httpDate.test(text)) return result
  const instant = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
  if (Number.isNaN(instant)) return result
  // A date has whole seconds, so it is rounded up: never earlier than asked.
  const onLine = new Date(Math.ceil((instant - aheadMs) / 1_000) * 1_000)
  return { ...result, retryAfter: onLine.toUTCString() }
}
