/**
 * HTTP header fields of rate limits: `RateLimit-Policy` gives the limits and `RateLimit` the rest of them
 * (draft-ietf-httpapi-ratelimit-headers-10, lists of RFC 9651 structured fields), `Retry-After` the time of the next try
 * (RFC 9110, 10.2.3). Pure; the middleware writes these fields, and so can any other server.
 */
import type { Decision } from './decision.ts'
import { LimitsError } from './errors.ts'
import type { Limit } from './limit.ts'

/** One window as HTTP tells it. */
export interface Quota {
  /** Unique within one response. What is not printable ASCII is percent-encoded, because the field holds nothing else. */
  readonly name: string
  readonly max: number
  readonly windowMs: number
  /** The number that may still go now; places booked for others are not available. */
  readonly remaining: number
  /** The instant at which more is available, epoch milliseconds; Infinity where it never is. */
  readonly resetAt: number
}

/** A quota behind a decision. */
export interface DecidedQuota extends Quota {
  /** True where it admits the call: one that counts as several may be refused where some are left. */
  readonly admits: boolean
}

/**
 * The quotas behind a decision, one per window, named by the limit, or `limit-2/day` where the limit has several
 * windows. Limits that only count (`over: 'count'`) refuse nothing and are left out. A decision without rows (a store
 * that did not answer) has none. While the subject is blocked nothing is left, whatever the windows hold.
 */
export function quotasOf(
  rules: readonly Limit[],
  { rules: rows, blockedUntil }: Decision,
): readonly DecidedQuota[] {
  if (rows.length === 0) return []
  const windows = rules.flatMap((limit) => limit.windows.map((window) => ({ limit, window })))
  if (windows.length !== rows.length)
    throw new LimitsError('INVALID_ARGUMENT', 'these are not the limits that the decision was made by')
  return windows.flatMap(({ limit, window }, index) => {
    if (limit.over === 'count') return []
    const { max, available: remaining, resetAt, freesAt, admits } = rows[index]!
    const name = printable(limit.windows.length === 1 ? limit.name : `${limit.name}-${window.text}`)
    const { windowMs } = window
    const quota = { name, max, windowMs, admits }
    const more = remaining > 0 ? resetAt : freesAt
    if (blockedUntil === undefined) return [{ ...quota, remaining, resetAt: more }]
    const open = remaining > 0 ? blockedUntil : Math.max(blockedUntil, freesAt)
    return [{ ...quota, remaining: 0, resetAt: open }]
  })
}

/** `RateLimit-Policy`: `"api";q=100;w=60`. A window that is no whole second is told as the next longer one. */
export function rateLimitPolicyField(quotas: readonly Quota[]): string {
  return quotas.map(({ name, max, windowMs }) => `${text(name)};q=${max};w=${seconds(windowMs)}`).join(', ')
}

/** `RateLimit`: `"api";r=40;t=17`. Without `t` where nothing ever frees. @param now epoch milliseconds */
export function rateLimitField(quotas: readonly Quota[], now: number): string {
  return quotas
    .map(({ name, remaining, resetAt }) => {
      const reset = Number.isFinite(resetAt) ? `;t=${Math.max(0, seconds(resetAt - now))}` : ''
      return `${text(name)};r=${remaining}${reset}`
    })
    .join(', ')
}

/** `Retry-After` in whole seconds, rounded up, at least 1: who comes back then does not come too early. */
export function retryAfterSeconds(retryAfterMs: number): number {
  return Math.max(1, seconds(retryAfterMs))
}

/** The quota that leaves least, which is the one that `X-RateLimit-*` tells. */
export function tightest<Q extends Pick<Quota, 'remaining'>>(quotas: readonly Q[]): Q | undefined {
  return quotas.reduce<Q | undefined>(
    (least, quota) => (least === undefined || quota.remaining < least.remaining ? quota : least),
    undefined,
  )
}

const seconds = (ms: number): number => Math.ceil(ms / 1_000)

/** A name may hold anything, line breaks too. */
function printable(name: string): string {
  return name.toWellFormed().replaceAll(/[^\x20-\x7e]/gu, encodeURIComponent)
}

/** A String of RFC 9651, which holds printable ASCII only. */
function text(name: string): string {
  return `"${printable(name).replaceAll(/["\\]/g, '\\$&')}"`
}
