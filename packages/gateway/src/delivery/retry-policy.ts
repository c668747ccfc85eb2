/** When to try again: what a provider asked for, or exponential backoff with full jitter. Pure. */
import type { SendResult } from '../ports.ts'

export interface RetryPolicy {
  /** @defaultValue 1_000 ms */
  readonly baseMs: number
  /** @defaultValue 300_000 ms */
  readonly capMs: number
  /** Calls before a notification becomes a dead letter, where neither of the two below holds. @defaultValue 6 */
  readonly attemptsMax: number
  /** How many repetitions there may be, as a share of first calls. @defaultValue 0.2 */
  readonly budget: number
  /** The recipient's server asks to come back in minutes. @defaultValue from 5 min up to 4 h, for 4 days */
  readonly greylisting: Patience
  /** What is called is away, maybe for hours. @defaultValue from 1 s up to 15 min, for 3 days */
  readonly outage: Patience
}

/** How patiently one kind of failure is repeated: for a time, and not so many times. */
export interface Patience {
  /** The least first wait; it doubles with each attempt, up to the cap. */
  readonly baseMs: number
  readonly capMs: number
  /** How long after the first call the last one may be. Then it is a dead letter. */
  readonly forMs: number
  /** Calls at most, where the configuration names a number. @defaultValue as many as there is time for */
  readonly attemptsMax?: number
}

/**
 * A server that greylists asks for 5 min as a rule (RFC 6647, 2.3 knows 1 min to 24 h); a mail is given up after four to
 * five days (RFC 5321, 4.5.4.1, which also advises 30 min between two attempts).
 */
export const defaultGreylisting: Patience = { baseMs: 300_000, capMs: 14_400_000, forMs: 345_600_000 }
/** A service that is away is asked soon at first, because most are back at once, and then ever more rarely. */
export const defaultOutage: Patience = { baseMs: 1_000, capMs: 900_000, forMs: 259_200_000 }

export const defaultRetryPolicy: RetryPolicy = {
  baseMs: 1_000,
  capMs: 300_000,
  attemptsMax: 6,
  budget: 0.2,
  greylisting: defaultGreylisting,
  outage: defaultOutage,
}

/** Where Retry-After is missing or invalid. */
export const defaultBlockMs = 5_000

/**
 * Full jitter: uniform between nothing and the exponential bound, which spreads the retries of many.
 * Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
 */
export function backoffMs(policy: RetryPolicy, attempt: number, chance: number): number {
  return Math.floor(chance * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1)))
}

/**
 * Up to half as long again as the doubled wait, and never shorter: who comes back too early to a server that greylists
 * is only refused once more.
 */
export function patientMs(patience: Patience, attempt: number, chance: number): number {
  return Math.floor((1 + chance / 2) * Math.min(patience.capMs, patience.baseMs * 2 ** (attempt - 1)))
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

/** A date that a provider wrote by its wall clock, on the line of the process; what is no date stays. */
export function retryAfterOnLine(result: SendResult, aheadMs: number): SendResult {
  if (aheadMs === 0 || !('retryAfter' in result) || result.retryAfter === undefined) return result
  const text = result.retryAfter.trim()
  if (!httpDate.test(text)) return result
  const instant = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
  if (Number.isNaN(instant)) return result
  // A date has whole seconds: never earlier than was asked.
  const onLine = new Date(Math.ceil((instant - aheadMs) / 1_000) * 1_000)
  return { ...result, retryAfter: onLine.toUTCString() }
}
