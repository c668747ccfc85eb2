/**
 * Rate limit headers of a tenant and its module: `X-RateLimit-*` with seconds since the epoch, and the fields
 * of the IETF draft, in the library's form, in seconds from now. Pure.
 */
import { type Quota, rateLimitField, rateLimitPolicyField, tightest, type Window } from '@sluice/limits'
import type { ThrottleUsage } from '../stages.ts'

type Headers = Readonly<Record<string, string>>

export function limitHeaders(usage: readonly ThrottleUsage[], now: number, aheadMs = 0): Headers {
  if (usage.length === 0) return {}
  const headers: Record<string, string> = {}
  const rows: ThrottleUsage[] = []
  for (const [of, name] of [
    ['tenant', 'Tenant'],
    ['module', 'Module'],
  ] as const) {
    const row = tightest(usage.filter((each) => each.of === of))
    if (row === undefined) continue
    headers[`x-ratelimit-limit-${name.toLowerCase()}`] = String(row.max)
    headers[`x-ratelimit-remaining-${name.toLowerCase()}`] = String(row.remaining)
    rows.push(row)
  }
  const quotas = usage.map(quotaOf)
  headers['x-ratelimit-reset'] = String(Math.ceil((tightest(rows)!.resetAt + aheadMs) / 1_000))
  headers['ratelimit-policy'] = rateLimitPolicyField(quotas)
  headers.ratelimit = rateLimitField(quotas, now)
  return headers
}

/** Windows are asked again after this time while nobody knows their use, ms. */
const askAgainMs = 1_000

/** The usage that is told while the limits cannot be asked: nothing is left, since nothing passes now. */
export function unknownUsage(
  tenant: readonly Window[],
  module: readonly Window[],
  now: number,
): readonly ThrottleUsage[] {
  const full =
    (of: ThrottleUsage['of']) =>
    (window: Window): ThrottleUsage => ({
      of,
      window: window.text,
      windowMs: window.windowMs,
      max: window.max,
      remaining: 0,
      resetAt: now + askAgainMs,
    })
  return [...tenant.map(full('tenant')), ...module.map(full('module'))]
}

/** Names a quota `tenant-100/min`: the window distinguishes several windows of one limit. */
const quotaOf = ({ of, window, ...rest }: ThrottleUsage): Quota => ({ ...rest, name: `${of}-${window}` })
