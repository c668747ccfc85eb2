/**
 * The middleware of every framework: finds the key for which a request counts, takes from the limits, and says what
 * to answer. The frameworks' own files only carry it over: they know where the address and the user stand, and how a
 * header is set. A request is counted once, before its handler runs, whatever the handler answers.
 */
import type { Decision } from '../decision.ts'
import { isUnavailable, LimitsError } from '../errors.ts'
import { quotasOf, rateLimitField, rateLimitPolicyField, retryAfterSeconds, tightest } from '../headers.ts'
import type { Limit } from '../limit.ts'
import type { Limits } from '../limits.ts'
import { checkNames, type Meant } from '../options.ts'
import { clientOf } from './address.ts'

type OrPromise<T> = T | Promise<T>

/** `onRefused` is the framework's: see its own file. */
export interface GuardOptions<Request> {
  readonly limits: Limits
  /**
   * The limits that a request must pass, all or nothing; an empty list passes. A function may choose by request, and answers
   * one of a few lists that it has made before: a new list in each call is compiled in each call.
   */
  readonly rules: readonly Limit[] | ((request: Request) => OrPromise<readonly Limit[]>)
  /**
   * Whom a request counts for: its `ip`, its `user`, or what a function answers. A request without user, or for which
   * the function answers undefined or '', counts for its address. Users and addresses cannot be taken for each other
   * (`user:42`, `ip:203.0.113.7`); what a function answers is the subject as it is.
   *
   * @defaultValue 'ip'
   */
  readonly key?: 'ip' | 'user' | ((request: Request) => OrPromise<string | undefined>)
  /**
   * How much of an IPv6 address tells clients apart, bits: a client is given all of its prefix.
   *
   * @defaultValue 64
   */
  readonly ipv6PrefixBits?: number
  /**
   * As how many a request counts, 1 or more.
   *
   * @defaultValue 1
   */
  readonly weight?: number | ((request: Request) => OrPromise<number>)
  /** Requests for which it answers true are not counted. */
  readonly skip?: (request: Request) => OrPromise<boolean>
  /**
   * Sends `RateLimit` and `RateLimit-Policy` with every answer. `Retry-After` always goes with a refusal.
   *
   * @defaultValue true
   */
  readonly rateLimitHeaders?: boolean
  /**
   * Sends `X-RateLimit-Limit`, `-Remaining` and `-Reset` (Unix seconds) of the window that leaves least.
   *
   * @defaultValue false
   */
  readonly xRateLimitHeaders?: boolean
  /**
   * The outcome of a request when the store does not answer and has no fallback of its own (`redisStore`'s
   * `onUnavailable`, which comes first): `refuse` it with 503, `admit` it uncounted, or `throw` to the framework's
   * error handler.
   *
   * @defaultValue 'refuse'
   */
  readonly onUnavailable?: 'refuse' | 'admit' | 'throw'
}

/** RFC 9457, with the members that the draft of the RateLimit fields adds. */
export interface LimitsProblem {
  readonly type: string
  readonly title: string
  readonly status: 429 | 503
  readonly detail: string
  readonly code: 'RATE_LIMIT_EXCEEDED' | 'STORE_UNAVAILABLE'
  /** Names as they stand in `RateLimit-Policy`. */
  readonly 'violated-policies'?: readonly string[]
}

/** A request that shall not pass. Its headers are set already; status and body are what is left to answer. */
export interface Refusal {
  readonly status: 429 | 503
  /** For whom the request counted. */
  readonly subject: string
  /** The body of the default answer, as `application/problem+json`. */
  readonly problem: LimitsProblem
  /** Undefined where the store did not answer. */
  readonly decision: Decision | undefined
}

/** Field values by name, in lower case. */
export type Fields = Readonly<Record<string, string>>

/** The outcome for a request: set the header fields, then answer the refusal or let the request pass. */
export interface Verdict {
  readonly fields: Fields
  readonly refusal: Refusal | undefined
}

/** Reads from a framework's request what the guard needs. */
export interface Whereabouts<Request> {
  readonly address: (request: Request) => string | undefined
  readonly user: (request: Request) => unknown
}

export const problemType = 'application/problem+json; charset=utf-8'

const passes: Verdict = { fields: {}, refusal: undefined }
const iana = 'https://iana.org/assignments/http-problem-types'
/** Asked of clients while the store does not answer. */
const unavailableForMs = 1_000

const optionNames: readonly (keyof GuardOptions<unknown>)[] = [
  'limits',
  'rules',
  'key',
  'ipv6PrefixBits',
  'weight',
  'skip',
  'rateLimitHeaders',
  'xRateLimitHeaders',
  'onUnavailable',
]

/** The words of express-rate-limit, @fastify/rate-limit, hono-rate-limiter and rate-limiter-flexible. */
const meant: Meant = {
  keyGenerator: 'key',
  max: 'rules',
  limit: 'rules',
  points: 'rules',
  duration: 'rules',
  windowMs: 'rules',
  timeWindow: 'rules',
  store: 'limits',
  redis: 'limits',
  cost: 'weight',
  allowList: 'skip',
  ipv6Subnet: 'ipv6PrefixBits',
  standardHeaders: 'rateLimitHeaders',
  legacyHeaders: 'xRateLimitHeaders',
  addHeaders: 'xRateLimitHeaders',
  handler: 'onRefused',
  message: 'onRefused',
  statusCode: 'onRefused',
  errorResponseBuilder: 'onRefused',
  onExceeded: 'onRefused',
  passOnStoreError: 'onUnavailable',
  skipOnError: 'onUnavailable',
}

/**
 * @param own the options that only the framework's own limiter has
 * @throws LimitsError `INVALID_ARGUMENT` for options that make no sense
 */
export function createGuard<Request>(
  options: GuardOptions<Request>,
  whereabouts: Whereabouts<Request>,
  own: readonly string[],
): (request: Request) => Promise<Verdict> {
  checkNames(options, [...optionNames, ...own], meant)
  checkOptions(options)
  const { limits, rules, skip, weight = 1, onUnavailable = 'refuse' } = options
  return async (request) => {
    if (skip !== undefined && (await skip(request))) return passes
    const chosen = typeof rules === 'function' ? await rules(request) : rules
    const subject = await subjectOf(request, options, whereabouts)
    const counted = typeof weight === 'function' ? await weight(request) : weight
    checkOnce(request, limits, subject, chosen)
    try {
      const decision = await limits.take(subject, chosen, counted === 1 ? undefined : { weight: counted })
      return verdictOf(decision, chosen, subject, options)
    } catch (error) {
      if (!isUnavailable(error) || onUnavailable === 'throw') throw error
      return onUnavailable === 'admit' ? passes : unavailable(subject)
    }
  }
}

/** By request: the limiters that have counted it, with the subject and the streams. It ends with the request. */
const countedBy = new WeakMap<
  object,
  { readonly limits: Limits; readonly subject: string; readonly stream: string }[]
>()

/**
 * Two limiters whose limits have one name count one request twice, and half of what was meant goes through: that is
 * told with the first request, and not when somebody wonders.
 *
 * @throws LimitsError `INVALID_RULES`
 */
function checkOnce(request: unknown, limits: Limits, subject: string, rules: readonly Limit[]): void {
  if (typeof request !== 'object' || request === null || !Array.isArray(rules)) return
  const before = countedBy.get(request) ?? []
  const streams = new Set(rules.map((rule: Limit) => rule?.stream))
  const twice = before.find(
    (one) => one.limits === limits && one.subject === subject && streams.has(one.stream),
  )
  if (twice !== undefined) {
    const wayOut = `limit('${twice.stream}', …, { stream: '…' }), or let one limiter ask both`
    throw new LimitsError(
      'INVALID_RULES',
      `a second limiter counts this request for '${subject}' in the stream '${twice.stream}': name another, ${wayOut}`,
    )
  }
  countedBy.set(request, [...before, ...Array.from(streams, (stream) => ({ limits, subject, stream }))])
}

async function subjectOf<Request>(
  request: Request,
  { key = 'ip', ipv6PrefixBits = 64 }: GuardOptions<Request>,
  { address, user }: Whereabouts<Request>,
): Promise<string> {
  if (typeof key === 'function') {
    // Null and an empty text too are what plain JavaScript answers for nobody.
    const subject = await key(request)
    if (subject !== undefined && subject !== null && subject !== '') return subject
  } else if (key === 'user') {
    const id = idOf(user(request))
    if (id !== undefined) return `user:${id}`
  }
  const from = address(request)
  if (from !== undefined && from !== '') return `ip:${clientOf(from, ipv6PrefixBits)}`
  const wayOut = 'give `key` a function that answers for every request'
  throw new LimitsError('INVALID_ARGUMENT', `nobody knows from which address this request came: ${wayOut}`)
}

/** A user is what authentication left there: its `id`, or the `sub` of its token. */
function idOf(user: unknown): string | undefined {
  if (typeof user !== 'object' || user === null) return undefined
  const { id, sub } = user as { readonly id?: unknown; readonly sub?: unknown }
  const found = id ?? sub
  return typeof found === 'string' || typeof found === 'number' ? String(found) : undefined
}

/** `firstAt` is the store's now: with a clock of our own, `t` would be off by what the two differ. */
function verdictOf<Request>(
  decision: Decision,
  rules: readonly Limit[],
  subject: string,
  { rateLimitHeaders = true, xRateLimitHeaders = false }: GuardOptions<Request>,
): Verdict {
  const fields: Record<string, string> = {}
  const { allowed, firstAt: now, retryAfterMs } = decision
  if (allowed && !rateLimitHeaders && !xRateLimitHeaders) return passes
  const quotas = quotasOf(rules, decision)
  if (rateLimitHeaders && quotas.length > 0) {
    fields['ratelimit-policy'] = rateLimitPolicyField(quotas)
    fields.ratelimit = rateLimitField(quotas, now)
  }
  const least = tightest(quotas)
  if (xRateLimitHeaders && least !== undefined) {
    fields['x-ratelimit-limit'] = String(least.max)
    fields['x-ratelimit-remaining'] = String(least.remaining)
    if (Number.isFinite(least.resetAt)) fields['x-ratelimit-reset'] = String(Math.ceil(least.resetAt / 1_000))
  }
  if (allowed) return { fields, refusal: undefined }
  const again = Number.isFinite(retryAfterMs) ? retryAfterSeconds(retryAfterMs) : undefined
  if (again !== undefined) fields['retry-after'] = String(again)
  const problem: LimitsProblem = {
    type: `${iana}#quota-exceeded`,
    title: 'Too many requests',
    status: 429,
    detail: again === undefined ? 'This is never allowed.' : `Too many requests. Try again in ${again}s.`,
    code: 'RATE_LIMIT_EXCEEDED',
    'violated-policies': quotas.filter((quota) => !quota.admits).map(({ name }) => name),
  }
  return { fields, refusal: { status: 429, subject, problem, decision } }
}

function unavailable(subject: string): Verdict {
  const again = String(retryAfterSeconds(unavailableForMs))
  const problem: LimitsProblem = {
    type: `${iana}#temporary-reduced-capacity`,
    title: 'Rate limits cannot be checked',
    status: 503,
    detail: `Nothing was counted. Try again in ${again}s.`,
    code: 'STORE_UNAVAILABLE',
  }
  const refusal: Refusal = { status: 503, subject, problem, decision: undefined }
  return { fields: { 'retry-after': again }, refusal }
}

/** A field that is a list joins what another limiter of the same request has set. */
export function joined(name: string, value: string, before: unknown): string {
  const isList = name === 'ratelimit' || name === 'ratelimit-policy'
  return isList && typeof before === 'string' && before !== '' ? `${before}, ${value}` : value
}

function checkOptions<Request>(options: GuardOptions<Request>): void {
  const { limits, rules, key = 'ip', ipv6PrefixBits = 64, onUnavailable = 'refuse' } = options
  const { weight = 1, skip, rateLimitHeaders = true, xRateLimitHeaders = false } = options
  const refuse = (reason: string): never => {
    throw new LimitsError('INVALID_ARGUMENT', reason)
  }
  if (typeof limits?.take !== 'function') refuse('limits is what createLimits answers')
  if (!Array.isArray(rules) && typeof rules !== 'function') refuse('rules is a list of limits or a function')
  if (key !== 'ip' && key !== 'user' && typeof key !== 'function') refuse("key is 'ip', 'user' or a function")
  if (!Number.isInteger(ipv6PrefixBits) || ipv6PrefixBits < 1 || ipv6PrefixBits > 128)
    refuse(`ipv6PrefixBits is a whole number from 1 to 128, not ${ipv6PrefixBits}`)
  if (typeof weight !== 'function' && !(Number.isInteger(weight) && weight >= 1))
    refuse(`weight is a whole number, 1 or more, or a function, not ${String(weight)}`)
  if (skip !== undefined && typeof skip !== 'function') refuse('skip is a function')
  if (typeof rateLimitHeaders !== 'boolean' || typeof xRateLimitHeaders !== 'boolean')
    refuse('rateLimitHeaders and xRateLimitHeaders are true or false')
  if (!['refuse', 'admit', 'throw'].includes(onUnavailable))
    refuse("onUnavailable is 'refuse', 'admit' or 'throw'")
}
