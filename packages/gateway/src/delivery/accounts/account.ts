/**
 * The state of an account whose calls are all made by this process (ports/accounts.ts), with everything that decides when
 * it may be called: its rate in every window, its learned rate, the block of a 429, its circuit breaker, and the calls in
 * flight. It answers at once, and makes every verdict within `judge`.
 */
import type { Window } from '@sluice/limits'
import type { AccountChange, AccountListener, AccountState } from '../../ports/accounts.ts'
import type { Account, AccountRecord, SendResult } from '../../ports.ts'
import type { AccountDetails, AccountPast, AccountReport, AccountStatus } from '../../stages.ts'
import { isFailure, isRecipientFault } from '../fault.ts'
import { LeaseList } from '../lease-list.ts'
import { Pacing } from '../pools/pacing.ts'
import { defaultBlockMs, parseRetryAfter } from '../retry-policy.ts'
import { AccountHistory, changedOf } from './account-history.ts'
import { AdaptiveConcurrency } from './adaptive-concurrency.ts'
import { Breaker, type BreakerPolicy } from './breaker.ts'
import { type CountedLease, lateMsMax } from './counted-lease.ts'
import { LearnedRate } from './learned-rate.ts'
import { createRollingRate, narrowestOf, placesOf, type RollingRate } from './rate.ts'
import { SlicedCount } from './sliced-count.ts'
import { Way } from './way.ts'
import { shortMs, WriteAheadUsage } from './write-ahead-usage.ts'

export interface AccountOptions {
  readonly account: Account
  /** Windows of its rate; no window means unlimited. */
  readonly windows: readonly Window[]
  /** The rate as the configuration writes it, for display. */
  readonly rate: string
  /** Maximum of concurrent calls. */
  readonly concurrencyMax: number
  /** Each window of its rate is extended by this, ms. @defaultValue the pool's */
  readonly marginMs?: number
}

export interface AccountPolicy {
  readonly marginMs: number
  readonly breaker: BreakerPolicy
  /** Bounds of adaptive concurrency; `undefined` keeps the configured concurrency. */
  readonly adaptive: { readonly min: number; readonly slowdown: number } | undefined
  /** Requests that the account be written, before it is called more often. Absent: no usage is recorded. */
  readonly keep: ((account: AccountState) => void) | undefined
  /** True if the provider tells when a call is written. @defaultValue false */
  readonly isTold?: boolean
}

const secondMs = 1_000
/** Characters of a Retry-After that are kept for display. */
const headerMax = 64
/** An account that is not free is looked at again after so long, where nobody says when it is. */
export const recheckMs = 1_000
/** Calls per second: fewer say nothing about the rate that an account without a configured one can take. */
const learnedMin = 10

type Known = Pick<AccountRecord, 'blockedUntil' | 'outSince' | 'breaker' | 'use'>

export class PooledAccount implements AccountState {
  readonly options: AccountOptions
  /** Calls per second in its narrowest window; `undefined` where it has no limit. */
  readonly ratePerSecond: number | undefined
  inFlight = 0
  blockedUntil = 0
  /** The end of an operator's hold. */
  #heldUntil = 0
  #notBefore = 0
  /** The instant at which it last went out. */
  #outSince = 0
  /** The header of the last 429. */
  #retryAfter: string | undefined
  readonly #history = new AccountHistory()
  readonly breaker: Breaker
  readonly #marginMs: number
  readonly #learned = new LearnedRate()
  readonly #concurrency: AdaptiveConcurrency | undefined
  readonly #pacing: Pacing | undefined
  readonly #keep: AccountPolicy['keep']
  /** Usage of its long windows, if it has any. */
  readonly #use: WriteAheadUsage | undefined
  #listener: AccountListener | undefined
  readonly #way: Way
  /**
   * Calls that are not written yet, in lease order, and calls written but not answered, in the order of writing. Both
   * are bounded by the calls in flight.
   */
  readonly #notLeft = new LeaseList<CountedLease>()
  readonly #unanswered = new LeaseList<CountedLease>()
  #recountedAt = Number.NEGATIVE_INFINITY
  #rate: RollingRate
  /** Calls in the last second of an account without a configured rate: a 429 starts learning from this. */
  readonly #recentCalls: SlicedCount | undefined
  /** The window that was learned for such an account. */
  #learnedWindow: Window | undefined

  constructor(options: AccountOptions, policy: AccountPolicy) {
    this.options = options
    const { windows } = options
    this.#marginMs = options.marginMs ?? policy.marginMs
    this.#rate = createRollingRate(windows, this.#marginMs)
    this.#way = new Way(this.#marginMs / 4)
    const long = windows.filter(({ windowMs }) => windowMs > shortMs)
    this.#keep = policy.keep
    this.#use =
      long.length === 0 || policy.keep === undefined ? undefined : new WriteAheadUsage(long, this.#marginMs)
    this.#recentCalls = windows.length === 0 ? new SlicedCount(secondMs, 4) : undefined
    const narrowest = windows[narrowestOf(windows)]
    this.ratePerSecond = narrowest && (narrowest.max / narrowest.windowMs) * secondMs
    this.#pacing = narrowest && new Pacing(narrowest, this.#marginMs)
    this.breaker = new Breaker(policy.breaker)
    const { adaptive } = policy
    this.#concurrency =
      adaptive === undefined
        ? undefined
        : new AdaptiveConcurrency({ ...adaptive, max: options.concurrencyMax })
  }

  get account(): Account {
    return this.options.account
  }

  get concurrency(): number {
    return this.#concurrency?.limit ?? this.options.concurrencyMax
  }

  /** Goes on from the concurrency that another process has found. */
  resize(concurrency: number): void {
    this.#concurrency?.resize(concurrency)
  }

  freeAt(now: number, kept: number, shared: boolean): number | undefined {
    const places = kept === 0 ? this.concurrency : placesOf(this.concurrency, 1, kept)
    if (this.inFlight >= places) return undefined
    const from = Math.max(this.breaker.freeAt(now), this.waitsUntil, this.#notBefore)
    if (from === Number.POSITIVE_INFINITY) return undefined
    if (now !== this.#recountedAt) this.#recount(now)
    const share = this.#share(now)
    const possible = this.#rate.freeAt(from, share, kept)
    if (possible > from) this.#pacing?.full(possible)
    const free = shared && this.#pacing !== undefined ? this.#pacing.freeAt(possible) : possible
    if (free <= now && this.#use !== undefined) {
      if (this.#use.asks()) this.#keep?.(this)
      if (!this.#use.admits) return undefined
    }
    // The learned rate may have risen by then, or kept places been freed.
    return (share < 1 || kept > 0) && free > from + recheckMs ? from + recheckMs : free
  }

  isOut(now: number): boolean {
    return this.waitsUntil > now || this.breaker.status !== 'closed'
  }

  isHeld(now: number): boolean {
    return this.#heldUntil > now
  }

  get waitsUntil(): number {
    return Math.max(this.blockedUntil, this.#heldUntil)
  }

  hold(until: number, now: number, since = now): void {
    if (!this.isOut(now)) this.#outSince = since
    if (until === 0) this.#history.changed({ at: now, change: 'released' })
    else this.#history.changed({ at: now, change: 'held', until })
    this.#heldUntil = until
  }

  get isBroken(): boolean {
    return this.breaker.status !== 'closed'
  }

  get probeAt(): number | undefined {
    return this.breaker.status === 'open' ? Math.max(this.breaker.openUntil, this.waitsUntil) : undefined
  }

  beginProbe(): boolean {
    return this.breaker.begin()
  }

  abandonProbe(): void {
    this.breaker.abandon()
  }

  listen(listener: AccountListener): void {
    this.#listener = listener
  }

  take(now: number): number {
    this.inFlight += 1
    this.#use?.take()
    this.#recentCalls?.add(now)
    this.#pacing?.took(now)
    return this.#rate.take(now)
  }

  renew(takenAt: number): number {
    return takenAt
  }

  undo(takenAt: number): void {
    this.#rate.undo(takenAt)
    this.#use?.undo()
    this.inFlight -= 1
  }

  /** Ends the call that counts at this instant. */
  end(takenAt: number): void {
    this.#use?.end(takenAt)
    this.inFlight -= 1
  }

  move(takenAt: number, later: number): number {
    return this.#rate.move(takenAt, later)
  }

  expect(lease: CountedLease): void {
    if (this.options.windows.length > 0) this.#notLeft.add(lease)
  }

  left(lease: CountedLease): void {
    if (this.#notLeft.delete(lease)) this.#unanswered.add(lease)
  }

  forget(lease: CountedLease): void {
    this.#notLeft.delete(lease)
  }

  /** Marks a call as answered: by now it has arrived, if it was ever written. */
  answered(lease: CountedLease, now: number, { outcome }: SendResult): void {
    this.#notLeft.delete(lease)
    if (!this.#unanswered.delete(lease)) return
    this.#count(lease, this.#way.arrivedBy(lease.leftAt!, now))
    if (outcome !== 'failed' && outcome !== 'unknown') this.#way.sample(now - lease.leftAt!)
  }

  /** Counts calls later that are not written yet, or on their way for longer than usual. */
  #recount(now: number): void {
    this.#recountedAt = now
    for (let lease = this.#notLeft.first; lease !== undefined; lease = lease.next)
      if (!this.#count(lease, now)) break
    for (let lease = this.#unanswered.first; lease !== undefined; ) {
      const { next, leftAt } = lease
      if (!this.#count(lease, this.#way.arrivedBy(leftAt!, now))) break
      if (this.#way.isOver(leftAt!, now)) this.#unanswered.delete(lease)
      lease = next
    }
  }

  /** Moves the call in the rate; true if it counts later than before. */
  #count(lease: CountedLease, at: number): boolean {
    if (at - lease.takenAt <= lateMsMax) return false
    lease.takenAt = this.#rate.move(lease.takenAt, at)
    return true
  }

  judge(now: number, result: SendResult, tookMs: number, probe: boolean): readonly AccountChange[] {
    if (isRecipientFault(result)) {
      // The result says nothing about the account, so the next call is the probe.
      if (probe) this.breaker.abandon()
      return []
    }
    this.#history.note(now, result, tookMs)
    if (!this.isOut(now)) this.#outSince = now
    const changes: AccountChange[] = []
    if (result.outcome === 'rate_limited') changes.push(...this.#block(now, result.retryAfter))
    const turned = this.breaker.end(now, probe, isFailure(result))
    if (turned === 'opened') changes.push({ kind: 'opened', until: this.breaker.openUntil })
    else if (turned === 'closed') changes.push({ kind: 'closed' })
    // A rejection answered at once says nothing about how long work takes.
    if (result.outcome === 'delivered' && this.#concurrency?.sample(now, tookMs, this.inFlight) === true) {
      changes.push({ kind: 'resized', concurrency: this.concurrency })
    }
    for (const change of changes) this.#history.changed(changedOf(change, now))
    return changes
  }

  #block(now: number, header: string | undefined): readonly AccountChange[] {
    const retryAfter = parseRetryAfter(header, now, defaultBlockMs)
    const until = now + retryAfter.ms
    if (until <= this.blockedUntil) return []
    // Calls in flight when the first 429 came teach nothing new.
    if (this.blockedUntil <= now) this.#learn(now, until)
    this.blockedUntil = until
    this.#retryAfter = header?.slice(0, headerMax)
    return [{ kind: 'blocked', until, retryAfter }]
  }

  #learn(now: number, until: number): void {
    if (this.#recentCalls !== undefined && this.#learnedWindow === undefined) {
      const max = Math.max(learnedMin, Math.floor(this.#recentCalls.sum(now)))
      this.#learnedWindow = { max, windowMs: secondMs, text: `${max}/s` }
      this.#rate = createRollingRate([this.#learnedWindow], this.#marginMs)
    }
    this.#learned.fall(now, until)
  }

  report(now: number): AccountReport {
    const share = this.#share(now)
    const base = this.ratePerSecond ?? this.#learnedWindow?.max
    return {
      id: this.account.id,
      rate: this.options.rate,
      used: this.#learnedWindow === undefined ? this.#rate.used(now) : 0,
      status: this.#status(now),
      blockedUntil: this.blockedUntil > now ? this.blockedUntil : null,
      ...this.#out(now),
      learnedRate: share === 1 || base === undefined ? null : Math.round(base * share * 100) / 100,
      concurrency: this.concurrency,
    }
  }

  details(now: number): AccountDetails {
    return {
      ...this.report(now),
      outSince: this.isOut(now) ? this.#outSince : null,
      retryAfter: this.blockedUntil > now ? (this.#retryAfter ?? null) : null,
      inFlight: this.inFlight,
      windows: this.#learnedWindow === undefined ? this.#rate.uses(now) : [],
      p50Ms: this.#history.quantileMs(now, 0.5),
      p99Ms: this.#history.quantileMs(now, 0.99),
      perMinute: this.#history.perMinute(now),
    }
  }

  past(now: number): AccountPast {
    return this.#history.past(now)
  }

  #out(now: number): Pick<AccountReport, 'outUntil' | 'outBecause'> {
    const blockedUntil = this.blockedUntil > now ? this.blockedUntil : Number.NEGATIVE_INFINITY
    const brokenUntil = this.isBroken ? Math.max(now, this.breaker.openUntil) : Number.NEGATIVE_INFINITY
    const heldUntil = this.isHeld(now) ? this.#heldUntil : Number.NEGATIVE_INFINITY
    const outUntil = Math.max(blockedUntil, brokenUntil, heldUntil)
    if (outUntil === Number.NEGATIVE_INFINITY) return { outUntil: null, outBecause: null }
    if (heldUntil === outUntil) return { outUntil, outBecause: 'hold' }
    return { outUntil, outBecause: blockedUntil > brokenUntil ? 'rate_limited' : 'breaker' }
  }

  /** Returns the learned share of its rate. A window learned from a 429 is forgotten when the share is back at 1. */
  #share(now: number): number {
    const share = this.#learned.share(now)
    if (share === 1 && this.#learnedWindow !== undefined) {
      this.#learnedWindow = undefined
      this.#rate = createRollingRate(this.options.windows, this.#marginMs)
    }
    return share
  }

  #status(now: number): AccountStatus {
    if (this.isHeld(now)) return 'held'
    if (this.blockedUntil > now) return 'blocked'
    switch (this.breaker.status) {
      case 'closed':
        return 'healthy'
      case 'open':
        return 'open'
      case 'half_open':
        return 'half_open'
    }
  }

  record(now: number): Known {
    const breaker = this.breaker.record()
    const use = this.#use?.record(now)
    return {
      ...(this.blockedUntil > now ? { blockedUntil: this.blockedUntil } : {}),
      ...(this.blockedUntil > now || breaker !== undefined ? { outSince: this.#outSince } : {}),
      ...(breaker === undefined ? {} : { breaker }),
      ...(use === undefined ? {} : { use }),
    }
  }

  recorded(): void {
    if (this.#use?.written() === true) this.#listener?.tokens()
  }

  retire(): void {
    this.#use?.giveUp()
  }

  /**
   * Blocks the account until its short windows have passed, because another process may have called it until this
   * instant. The state of the long windows is on record.
   */
  usedUntil(instant: number): void {
    const forgotten = this.options.windows.filter(({ windowMs }) => windowMs <= shortMs)
    const longest = Math.max(0, ...forgotten.map(({ windowMs }) => windowMs + this.#marginMs))
    this.#notBefore = instant + longest
  }

  restore({ blockedUntil, outSince, breaker, use }: Known): void {
    // A hold that is in force already may have begun earlier.
    if (outSince !== undefined) this.#outSince = Math.min(outSince, this.#outSince || outSince)
    if (blockedUntil !== undefined) this.blockedUntil = blockedUntil
    if (breaker !== undefined) this.breaker.restore(breaker)
    if (use === undefined) return
    this.#use?.restore(use)
    for (const [at, count] of use.calls) for (let call = 0; call < count; call += 1) this.#rate.take(at)
  }
}
