/**
 * The recent past of an account, for whoever looks at it: results by minute for an hour, how long calls took in the
 * last one or two minutes, and its last changes. Bounded: some 12 kB an account that is in use. Pure.
 */
import type { AccountChange } from '../../ports/accounts.ts'
import type { SendResult } from '../../ports.ts'
import type { AccountChanged, AccountMinute, AccountPast } from '../../stages.ts'
import { SlicedCount } from './sliced-count.ts'

const minuteMs = 60_000
const minutesMax = 60
const changesMax = 200
/** Buckets of a duration grow by a tenth, from 1 ms to over a minute: a quantile is at most a tenth too high. */
const growth = Math.log(1.1)
const bucketsMax = 120

type Kind = 'delivered' | 'failed' | 'rateLimited'
type Counts = { -readonly [K in keyof AccountMinute]: AccountMinute[K] }

export class AccountHistory {
  readonly #recent = {
    delivered: new SlicedCount(minuteMs, 12),
    failed: new SlicedCount(minuteMs, 12),
    rateLimited: new SlicedCount(minuteMs, 12),
  }
  /** Minutes with calls, oldest first. */
  readonly #minutes: Counts[] = []
  readonly #changes: AccountChanged[] = []
  /** Durations of this minute and of the one before. */
  #durations: Uint32Array | undefined
  #durationsBefore: Uint32Array | undefined
  #durationsOf = 0

  /** Notes the result of a call and its duration. */
  note(now: number, { outcome }: SendResult, tookMs: number): void {
    const kind = kindOf(outcome)
    if (kind === undefined) return
    this.#recent[kind].add(now)
    const at = Math.floor(now / minuteMs) * minuteMs
    let minute = this.#minutes.at(-1)
    if (minute === undefined || minute.at < at) {
      minute = { at, delivered: 0, failed: 0, rateLimited: 0 }
      this.#minutes.push(minute)
      if (this.#minutes.length > minutesMax) this.#minutes.shift()
    }
    minute[kind] += 1
    this.#turn(at)
    this.#durations ??= new Uint32Array(bucketsMax)
    const bucket = tookMs <= 1 ? 0 : Math.min(bucketsMax - 1, Math.ceil(Math.log(tookMs) / growth))
    this.#durations[bucket]! += 1
  }

  /** Notes a change of the account. */
  changed(change: AccountChanged): void {
    this.#changes.push(change)
    if (this.#changes.length > changesMax) this.#changes.shift()
  }

  /** Counts the results of the last 60 s, to within 5 s. */
  perMinute(now: number): Readonly<Record<Kind, number>> {
    const { delivered, failed, rateLimited } = this.#recent
    return { delivered: delivered.sum(now), failed: failed.sum(now), rateLimited: rateLimited.sum(now) }
  }

  /** Returns the duration that this share of the calls did not exceed, ms; `null` where there were none. */
  quantileMs(now: number, share: number): number | null {
    this.#turn(Math.floor(now / minuteMs) * minuteMs)
    const both = [this.#durations, this.#durationsBefore].filter((each) => each !== undefined)
    let left = both.reduce((total, each) => total + each.reduce((sum, count) => sum + count, 0), 0) * share
    if (left === 0) return null
    for (let bucket = 0; bucket < bucketsMax; bucket += 1) {
      for (const each of both) left -= each[bucket]!
      if (left <= 0) return Math.round(Math.exp(bucket * growth))
    }
    return Math.round(Math.exp((bucketsMax - 1) * growth))
  }

  past(now: number): AccountPast {
    return {
      changes: this.#changes.toReversed(),
      minutes: this.#minutes.filter(({ at }) => at > now - minutesMax * minuteMs),
    }
  }

  /** Forgets durations that are older than the minute before this one. */
  #turn(minute: number): void {
    if (minute <= this.#durationsOf) return
    this.#durationsBefore = minute - this.#durationsOf === minuteMs ? this.#durations : undefined
    this.#durations = undefined
    this.#durationsOf = minute
  }
}

function kindOf(outcome: SendResult['outcome']): Kind | undefined {
  switch (outcome) {
    case 'delivered':
      return 'delivered'
    case 'rate_limited':
      return 'rateLimited'
    case 'failed':
    case 'unknown':
      return 'failed'
    default:
      return undefined
  }
}

/** Describes a change that a call caused. */
export function changedOf(change: AccountChange, at: number): AccountChanged {
  switch (change.kind) {
    case 'blocked': {
      const { until, retryAfter } = change
      return {
        at,
        change: 'blocked',
        until,
        ...(retryAfter.note === undefined ? {} : { detail: retryAfter.note }),
      }
    }
    case 'opened':
      return { at, change: 'opened', until: change.until }
    case 'closed':
      return { at, change: 'closed' }
    case 'resized':
      return { at, change: 'resized', detail: `${change.concurrency} calls at once` }
  }
}
