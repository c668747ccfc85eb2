/**
 * What the limits of a tenant and its module leave, as headers: `X-RateLimit-*` with seconds since the epoch, and the
 * fields of the IETF draft (draft-ietf-httpapi-ratelimit-headers-10): `RateLimit-Policy` says what holds, `RateLimit`
 * how much is left and for how many seconds. Pure.
 */
import type { PlatformUsage } from '../doors.ts'

type Headers = Readonly<Record<string, string>>

export function limitHeaders(usage: readonly PlatformUsage[], now: number): Headers {
  if (usage.length === 0) return {}
  const headers: Record<string, string> = {}
  const tightest: PlatformUsage[] = []
  for (const [of, name] of [
    ['tenant', 'Tenant'],
    ['module', 'Module'],
  ] as const) {
    const row = tighter(usage.filter((each) => each.of === of))
    if (row === undefined) continue
    headers[`x-ratelimit-limit-${name.toLowerCase()}`] = String(row.max)
    headers[`x-ratelimit-remaining-${name.toLowerCase()}`] = String(row.remaining)
    tightest.push(row)
  }
  headers['x-ratelimit-reset'] = String(Math.ceil(tighter(tightest)!.resetAt / 1_000))
  headers['ratelimit-policy'] = usage
    .map((row) => `"${nameOf(row)}";q=${row.max};w=${Math.ceil(row.windowMs / 1_000)}`)
    .join(', ')
  headers.ratelimit = usage
    .map(
      (row) => `"${nameOf(row)}";r=${row.remaining};t=${Math.max(0, Math.ceil((row.resetAt - now) / 1_000))}`,
    )
    .join(', ')
  return headers
}

/** The window that leaves least. */
function tighter(rows: readonly PlatformUsage[]): PlatformUsage | undefined {
  return rows.reduce<PlatformUsage | undefined>(
    (least, row) => (least === undefined || row.remaining < least.remaining ? row : least),
    undefined,
  )
}

/** `tenant-100/min`: several windows of one limit are told apart. */
const nameOf = (row: PlatformUsage): string => `${row.of}-${row.window}`
