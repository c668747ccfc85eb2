/**
 * The limiter for those who think in notifications: who, over which channel, of which category. A table says how many
 * of each a user gets; every row that matches must admit, and then all of them count, in one call of the store.
 */
import { checkKey, checkOptions } from './calls.ts'
import type { Decision, RuleRow } from './decision.ts'
import { LimitsError } from './errors.ts'
import { type Limit, limit, onStream } from './limit.ts'
import { createLimits, type Limits } from './limits.ts'
import { defaultNotificationTable, type NotificationRule } from './notification-table.ts'
import { compile } from './plan.ts'
import type { Store } from './store.ts'

export interface NotificationRateLimiterOptions {
  /**
   * Where the state lives.
   *
   * @defaultValue `memoryStore()`
   */
  readonly store?: Store
  /**
   * How many of which notifications a user gets. What no row matches is not limited.
   *
   * @defaultValue the default policy: 13 rows, see `defaultNotificationTable`
   */
  readonly table?: readonly NotificationRule[]
  /**
   * Limits over all notifications of a user together, such as `limit('everything', '100/30min', { minGap: '1s' })`.
   *
   * @defaultValue none
   */
  readonly everything?: readonly Limit[]
}

export interface NotificationAsk {
  readonly userId: string
  /** `email`, `sms`, `push`, … */
  readonly channel: string
  /** `security`, `billing`, `marketing`, `product`, `activity`, … */
  readonly category: string
  /**
   * Who caused it, where rows count per author. Without one all share one count.
   *
   * @defaultValue ''
   */
  readonly actor?: string
  /**
   * Makes the call idempotent: a notification that counts already is not counted again.
   *
   * @defaultValue none
   */
  readonly id?: string
}

export interface NotificationResult {
  /** True where it may go. */
  readonly allowed: boolean
  /** The number that may still go now: the least that any row has left. Infinity where no row limits. */
  readonly remaining: number
  /**
   * Epoch ms. Refused: the first instant at which all rows admit it, Infinity where they never will. Allowed: when the
   * oldest entry of the tightest window leaves it.
   */
  readonly resetAt: number
  /** `all` where it may go; else the window that refused it, as it is written: `2/day`. Of several the last to free. */
  readonly rule: string
  /** The row that refused it; else the one with the least left. Undefined where no row limits. */
  readonly limit: string | undefined
}

const known = new Set(['name', 'windows', 'category', 'channel', 'per', 'otherwise'])
const fields: readonly string[] = ['actor', 'category', 'channel']

interface Row {
  readonly rule: NotificationRule
  readonly limit: Limit
}

/**
 * Limits notifications per user, channel and category over a table.
 *
 * @throws LimitsError `INVALID_LIMIT`, `INVALID_WINDOW`, `INVALID_RULES` for a table that makes no sense
 */
export class NotificationRateLimiter {
  readonly #limits: Limits
  readonly #rows: readonly Row[]
  readonly #everything: readonly Limit[]
  /** The limits of a channel and category whose rows do not count per author: the same array finds its plan again. */
  readonly #known = new Map<string, readonly Limit[]>()

  constructor(options: NotificationRateLimiterOptions = {}) {
    const {
      store,
      table = defaultNotificationTable,
      everything = [],
    } = checkOptions(options, 'store', 'table', 'everything')
    this.#limits = createLimits(store === undefined ? {} : { store })
    if (!Array.isArray(table)) refuse('table is a list of rows')
    this.#rows = table.map((rule, index) => ({ rule, limit: limitOf(rule, index) }))
    compile(everything, 0)
    this.#everything = everything
    const names = [...this.#rows.map(({ rule }) => rule.name), ...everything.map(({ name }) => name)]
    const twice = names.find((name, index) => names.indexOf(name) < index)
    if (twice !== undefined) refuse(`two rows are named '${twice}': results could not tell them apart`)
  }

  /**
   * Counts the notification if every row admits it; a refused one takes nothing.
   *
   * @throws LimitsError `INVALID_ARGUMENT`, `STORE_UNAVAILABLE`
   */
  async checkAndConsume(ask: NotificationAsk): Promise<NotificationResult> {
    const subject = subjectOf(ask)
    const { id } = ask
    const decision = await this.#limits.take(subject, this.#limitsFor(ask), id === undefined ? {} : { id })
    return resultOf(decision)
  }

  /** Answers as `checkAndConsume` would; counts nothing. */
  async check(ask: NotificationAsk): Promise<NotificationResult> {
    return resultOf(await this.#limits.check(subjectOf(ask), this.#limitsFor(ask)))
  }

  /** Forgets everything that was counted for a user. */
  async reset(userId: string): Promise<void> {
    checkKey('userId', userId)
    await this.#limits.reset(prefix + userId)
  }

  #limitsFor(ask: NotificationAsk): readonly Limit[] {
    const { channel, category, actor = '' } = ask
    checkKey('channel', channel)
    checkKey('category', category)
    if (typeof actor !== 'string') throw new LimitsError('INVALID_ARGUMENT', 'actor is a text')
    const key = JSON.stringify([channel, category])
    const cached = this.#known.get(key)
    if (cached !== undefined) return cached
    const named = this.#rows.filter(({ rule }) => isNamed(rule) && matches(rule, ask))
    const rows =
      named.length > 0
        ? this.#rows.filter(({ rule }) => rule.otherwise !== true && matches(rule, ask))
        : this.#rows.filter(({ rule }) => !isNamed(rule))
    const limits = [...rows.map((row) => onStreamOf(row, { channel, category, actor })), ...this.#everything]
    if (rows.some(({ rule }) => rule.per?.includes('actor') === true)) return limits
    if (this.#known.size >= knownMax) this.#known.clear()
    this.#known.set(key, limits)
    return limits
  }
}

const prefix = 'notifications:'
const knownMax = 1_000

function subjectOf(ask: NotificationAsk): string {
  const { userId } = ask ?? {}
  checkKey('userId', userId)
  return prefix + userId
}

function isNamed({ category, channel }: NotificationRule): boolean {
  return category !== undefined || channel !== undefined
}

function matches(rule: NotificationRule, { category, channel }: NotificationAsk): boolean {
  return (
    (rule.category === undefined || rule.category === category) &&
    (rule.channel === undefined || rule.channel === channel)
  )
}

/** A row that counts authors, categories or channels apart has a stream for each. */
function onStreamOf(
  { rule, limit: one }: Row,
  values: Record<'actor' | 'category' | 'channel', string>,
): Limit {
  if (rule.per === undefined) return one
  return onStream(one, JSON.stringify([rule.name, ...rule.per.map((field) => values[field])]))
}

function limitOf(rule: NotificationRule, index: number): Limit {
  if (typeof rule !== 'object' || rule === null) refuse(`table[${index}] is no row`)
  const { name, windows, category, channel, per, otherwise = false } = rule
  for (const key of Object.keys(rule)) {
    if (!known.has(key))
      refuse(`row '${name}' has an unknown field '${key}'; there are ${[...known].join(', ')}`)
  }
  for (const text of [category, channel]) {
    if (text !== undefined && (typeof text !== 'string' || text === ''))
      refuse(`row '${name}': category and channel are texts`)
  }
  if (per !== undefined && !(Array.isArray(per) && per.every((field) => fields.includes(field))))
    refuse(`row '${name}': per is a list of ${fields.join(', ')}`)
  if (typeof otherwise !== 'boolean') refuse(`row '${name}': otherwise is true or false`)
  if (otherwise && isNamed(rule))
    refuse(`row '${name}' is for what no other row names, so it can name no category and no channel`)
  return limit(name, windows)
}

function resultOf({ allowed, at, limit: refuser, firstAt, rules }: Decision): NotificationResult {
  const tightest = rules.reduce<RuleRow | undefined>(
    (least, row) => (least === undefined || row.available < least.available ? row : least),
    undefined,
  )
  if (!allowed) {
    const refusing = rules.filter((row) => !row.admits && row.limit === refuser)
    const last = refusing.reduce<RuleRow | undefined>(
      (latest, row) => (latest === undefined || row.freesAt > latest.freesAt ? row : latest),
      undefined,
    )
    return { allowed, remaining: 0, resetAt: at, rule: last?.window ?? 'blocked', limit: refuser }
  }
  return {
    allowed,
    remaining: tightest?.available ?? Number.POSITIVE_INFINITY,
    resetAt: tightest?.resetAt ?? firstAt,
    rule: 'all',
    limit: tightest?.limit,
  }
}

function refuse(reason: string): never {
  throw new LimitsError('INVALID_RULES', reason)
}
