/**
 * The state of an account that several processes call (ports/accounts.ts). It answers from what is in hand: tokens of the
 * present slot, and the verdicts of the judge as they were heard last. The results of all processes come in one order to
 * every process, so each has the history of the whole fleet, and each could be the next judge.
 */
import type { Window } from '@sluice/limits'
import type { HeardVerdict, SlotAsk, SlotGrant, SlotVerdict } from '../../ports/account-slots.ts'
import type { AccountChange, AccountListener, AccountState, CountedCall } from '../../ports/accounts.ts'
import type { Account, AccountRecord, SendResult, UseRecord } from '../../ports.ts'
import type { AccountDetails, AccountPast, AccountReport } from '../../stages.ts'
import { isRecipientFault } from '../fault.ts'
import { defaultBlockMs, parseRetryAfter } from '../retry-policy.ts'
import { type AccountOptions, type AccountPolicy, PooledAccount } from './account.ts'
import { AskPause } from './ask-pause.ts'
import { FleetLongUse } from './fleet-long-use.ts'
import type { FleetRounds } from './fleet-rounds.ts'
import { FleetTokens } from './fleet-tokens.ts'
import { closedVerdict, followResult, followVerdict, verdictMsMax, verdictOf } from './fleet-verdict.ts'
import { keptForCriticalMs, narrowestOf, placesOf } from './rate.ts'

type Known = Pick<AccountRecord, 'blockedUntil' | 'outSince' | 'breaker' | 'use'>
type PoolRounds = FleetRounds<FleetAccount>

export class FleetAccount implements AccountState {
  inFlight = 0
  /** Calls under way and tokens in hand of all processes, as they were heard last. */
  busy = 0
  readonly options: AccountOptions
  readonly windows: readonly Window[]
  /** Its place in the roster. */
  readonly index: number
  readonly long: FleetLongUse | undefined
  /** True while the verdict of this process is to be told. */
  isJudged = false
  /** True while the end of its block is to be told. */
  isBlocked = false
  /** True if its probe was not made. */
  hasAbandoned = false
  /** True while a probe of this process is under way. */
  isProbing = false
  readonly #rounds: PoolRounds
  /** The judgement of its results: breaker, concurrency, learned rate, history. No call takes a place in its windows. */
  readonly #core: PooledAccount
  readonly #tokens: FleetTokens
  #listener: AccountListener | undefined
  /** The end of its block. */
  blockedUntil = 0
  /** The end of the cool-down; 0 while its breaker is closed. */
  #openUntil = 0
  #probedUntil = 0
  #concurrency: number
  #heldUntil = 0
  #notBefore = 0
  /** The share of its places that the last question for tokens kept, and the instant until which critical ones have places. */
  #kept = 0
  #wantsCritical = false
  #criticalUntil = 0
  readonly #pause: AskPause
  #lacksCalls = false
  /** Calls under way and tokens in hand as they were told last. */
  #told = 0
  /** The calls in the run of each of its windows. */
  uses: readonly number[] = []

  constructor(options: AccountOptions, policy: AccountPolicy, index: number, rounds: PoolRounds) {
    this.options = options
    this.index = index
    this.#rounds = rounds
    const marginMs = options.marginMs ?? policy.marginMs
    this.windows = options.windows.map((window) => ({ ...window, windowMs: window.windowMs + marginMs }))
    this.#core = new PooledAccount(options, { ...policy, keep: undefined })
    const { slotMs } = rounds
    const shortestMs = this.windows[narrowestOf(this.windows)]?.windowMs
    this.#pause = new AskPause(slotMs)
    this.#tokens = new FleetTokens({ slotMs, marginMs, shortestMs, isTold: policy.isTold === true })
    this.#concurrency = options.concurrencyMax
    const keep = policy.keep && (() => policy.keep!(this))
    this.long = FleetLongUse.of(options.windows, { slotMs, marginMs, keep })
  }

  get account(): Account {
    return this.options.account
  }

  get ratePerSecond(): number | undefined {
    return this.#core.ratePerSecond
  }

  get concurrency(): number {
    return Math.min(this.#concurrency, this.options.concurrencyMax)
  }

  get isBroken(): boolean {
    return this.#openUntil > 0
  }

  get waitsUntil(): number {
    return Math.max(this.blockedUntil, this.#heldUntil)
  }

  get probeAt(): number | undefined {
    if (!this.isBroken) return undefined
    return Math.max(this.#openUntil, this.#tokens.isProbe ? 0 : this.#probedUntil, this.waitsUntil)
  }

  freeAt(now: number, kept: number): number | undefined {
    if (this.inFlight >= placesOf(this.concurrency, 1, kept)) return undefined
    const from = Math.max(this.waitsUntil, this.#notBefore)
    if (from > now) return from
    if (kept > 0) this.#criticalUntil = now + keptForCriticalMs
    if (this.#tokens.has(now, kept === 0) && (!this.isBroken || this.#tokens.isProbe)) return now
    const probeAt = this.probeAt ?? 0
    if (probeAt > now) return probeAt
    this.#kept = kept
    if (kept === 0) this.#wantsCritical = true
    if (now >= this.#pause.until) this.#rounds.want(this)
    return Math.max(this.#rounds.nextAt(now), this.#pause.until)
  }

  take(now: number): number {
    this.inFlight += 1
    this.#rounds.held(-1, 0)
    return this.#tokens.take(now)
  }

  beginProbe(): boolean {
    this.isProbing = this.isBroken
    if (this.isProbing) this.#probedUntil = Number.POSITIVE_INFINITY
    return this.isProbing
  }

  abandonProbe(): void {
    this.#probedUntil = 0
    this.isProbing = false
    this.hasAbandoned = true
    this.#rounds.tell(this, true)
  }

  renew(takenAt: number, now: number): number | undefined {
    const before = this.#tokens.inHand
    const renewed = this.#tokens.renew(takenAt, now)
    this.#rounds.held(this.#tokens.inHand - before, 0)
    return renewed
  }

  undo(takenAt: number): void {
    this.inFlight -= 1
    if (this.#tokens.undo(takenAt, this.#rounds.now())) this.#rounds.held(1, 0)
    this.#rounds.tell(this, false)
  }

  move(takenAt: number, later: number): number {
    this.#tokens.move(takenAt, later)
    this.#rounds.tell(this, true)
    return takenAt
  }

  expect({ takenAt }: CountedCall): void {
    this.#tokens.expect(takenAt, true)
  }

  mayLeave({ takenAt }: CountedCall, now: number): boolean {
    return this.#tokens.mayLeave(takenAt, now)
  }

  left({ takenAt, leftAt = takenAt }: CountedCall): void {
    if (this.#tokens.left(takenAt, leftAt)) this.#rounds.tell(this, true)
  }

  forget({ takenAt }: CountedCall): void {
    this.#tokens.expect(takenAt, false)
  }

  answered({ takenAt }: CountedCall): void {
    this.#tokens.close(takenAt)
  }

  end(takenAt: number): void {
    this.inFlight -= 1
    this.#tokens.close(takenAt)
    if (this.#lacksCalls) this.#pause.end()
    this.#rounds.tell(this, this.#lacksCalls)
  }

  listen(listener: AccountListener): void {
    this.#listener = listener
  }

  // ---- verdicts

  isOut(now: number): boolean {
    return this.waitsUntil > now || this.isBroken
  }

  isHeld(now: number): boolean {
    return this.#heldUntil > now
  }

  /** Reports the result to all processes. A block holds here at once; every other verdict is the judge's. */
  judge(now: number, result: SendResult, tookMs: number, probe: boolean): readonly AccountChange[] {
    if (isRecipientFault(result)) {
      if (probe) this.abandonProbe()
      return []
    }
    if (probe) {
      this.isProbing = false
      this.#probedUntil = now + verdictMsMax
    }
    this.#rounds.report(this, now, result, tookMs, probe)
    if (result.outcome !== 'rate_limited') return []
    const retryAfter = parseRetryAfter(result.retryAfter, now, defaultBlockMs)
    const until = now + retryAfter.ms
    if (until <= this.blockedUntil) return []
    this.blockedUntil = until
    this.isBlocked = true
    this.#void()
    this.#rounds.tell(this, true)
    return [{ kind: 'blocked', until, retryAfter }]
  }

  hold(until: number, now: number, since = now): void {
    this.#core.hold(until, now, since)
    this.#heldUntil = until
    if (until > now) this.#void()
  }

  /** Gives the tokens in hand back: the account is out, or they were not used. A probe is then another's to make. */
  #void(isUnused = false): void {
    if (this.#tokens.isProbe) this.hasAbandoned = true
    const dropped = this.#tokens.drop()
    this.#rounds.held(-dropped, isUnused ? dropped : 0)
  }

  /** Hears of the result of a call of any process. Returns true where the judge has to tell a verdict. */
  hearResult(at: number, result: SendResult, tookMs: number, probe: boolean, busy: number): boolean {
    return followResult(this.#core, { at, result, tookMs, probe, busy })
  }

  /** True while the results say something else of its breaker than the last verdict: the judge of before has not told it. */
  get isUntold(): boolean {
    return this.#core.isBroken !== this.isBroken
  }

  /** The verdict of this process. */
  verdict(now: number): SlotVerdict {
    return { account: this.index, ...verdictOf(this.#core, now) }
  }

  hearVerdict(now: number, verdict: HeardVerdict): void {
    const { blockedUntil, openUntil, concurrency, probedUntil } = verdict
    const changes: AccountChange[] = []
    if (blockedUntil > Math.max(now, this.blockedUntil)) {
      this.blockedUntil = blockedUntil
      changes.push({ kind: 'blocked', until: blockedUntil, retryAfter: { ms: blockedUntil - now } })
    }
    if (openUntil !== this.#openUntil) {
      changes.push(openUntil > 0 ? { kind: 'opened', until: openUntil } : { kind: 'closed' })
      this.#openUntil = openUntil
    }
    this.#probedUntil = probedUntil
    followVerdict(this.#core, now, verdict)
    const before = this.concurrency
    if (concurrency !== undefined) this.#concurrency = concurrency || this.options.concurrencyMax
    if (this.concurrency !== before) changes.push({ kind: 'resized', concurrency: this.concurrency })
    if (this.isOut(now) && !this.#tokens.isProbe) this.#void()
    this.#pause.end()
    this.#listener?.verdicts(now, changes)
    this.#listener?.tokens()
  }

  /** Follows the blocks that it was told of, behind the results: from a 429 of a block that is known nothing is learned. */
  followBlock(): void {
    if (this.blockedUntil > this.#core.blockedUntil) this.#core.restore({ blockedUntil: this.blockedUntil })
  }

  // ---- rounds

  /** The part of the next question; `want` tokens are asked for. */
  ask(now: number, want: number): SlotAsk {
    if (!this.#tokens.has(now, true)) this.#void(true)
    const kept = this.#wantsCritical ? 0 : this.#kept
    this.#told = this.inFlight + this.#tokens.inHand
    return { account: this.index, want, kept, busy: this.#told, ...this.#tokens.tell(now) }
  }

  /** True if the next question should name it. */
  hasNews(now: number): boolean {
    const overdueAt = this.#tokens.overdueAt()
    return (
      this.#tokens.hasNews ||
      this.inFlight + this.#tokens.inHand !== this.#told ||
      (this.#tokens.inHand > 0 && !this.#tokens.has(now, true)) ||
      (overdueAt !== undefined && overdueAt <= now)
    )
  }

  /** True if it has calls that are not written yet, or tokens: their slot will be over. */
  get isOpen(): boolean {
    return this.#tokens.inHand > 0 || this.#tokens.overdueAt() !== undefined
  }

  hearGrant(now: number, ask: SlotAsk, grant: SlotGrant, slot: number, until: number): void {
    this.#tokens.told(slot, until)
    this.#told += grant.tokens
    this.busy = grant.busy
    if (ask.want === 0) return
    const isCritical = this.#wantsCritical && this.#criticalUntil > now
    this.#wantsCritical = false
    this.#lacksCalls = grant.shortage === 'concurrency'
    this.#pause.heard(now, grant, ask.kept, slot, until)
    if (grant.tokens === 0) return
    this.#rounds.held(this.#tokens.give(grant, slot, until, isCritical, now), 0)
    const isGood = !this.isOut(now) || (grant.isProbe && this.waitsUntil <= now)
    if (!this.#tokens.has(now, true) || !isGood) {
      this.#void()
      this.#rounds.tell(this, false)
    } else this.#listener?.tokens()
  }

  /** Hears that the question was not answered. */
  hearNothing(): void {
    this.#tokens.lost()
    this.#told = Number.NaN
  }

  /** Hears that another server counts now, or that the state is lost which counted. */
  ended(isLost = false): void {
    this.#void()
    this.#tokens.end(isLost)
  }

  /** Hears that nothing is known of this process any more, or of anything. */
  forgotten(now: number, isAll: boolean): void {
    this.#told = 0
    if (!isAll) return
    this.isBlocked = this.blockedUntil > 0
    this.isJudged = verdictOf(this.#core, now).isToTell
    // The results closed its breaker; the verdict that said so was lost.
    if (this.isBroken && this.isUntold) this.hearVerdict(now, closedVerdict(this.index, this.#concurrency))
    this.long?.lost()
    if (this.long !== undefined) this.ended(true)
  }

  // ---- reports and record

  report(now: number): AccountReport {
    const report = this.#core.report(now)
    const isProbed = this.isBroken && this.#probedUntil > now && report.status === 'open'
    return {
      ...report,
      ...(isProbed ? { status: 'half_open' as const } : {}),
      used: this.uses[narrowestOf(this.windows)] ?? 0,
      concurrency: this.concurrency,
    }
  }

  details(now: number): AccountDetails {
    const details = this.#core.details(now)
    const windows = details.windows.map((use, index) => ({ ...use, used: this.uses[index] ?? 0 }))
    return { ...details, ...this.report(now), inFlight: this.inFlight, windows }
  }

  past(now: number): AccountPast {
    return this.#core.past(now)
  }

  record(now: number): Known {
    const use: UseRecord | undefined = this.long?.record(now, this.#rounds.isJudge(this))
    const { use: _, ...known } = this.#core.record(now)
    // The results of this process, too, are judged when they are heard; a block is on record from its answer on.
    const { blockedUntil } = this
    const block = blockedUntil > now ? { outSince: now, ...known, blockedUntil } : known
    return use === undefined ? block : { ...block, use }
  }

  recorded(): void {
    if (this.long?.recorded() === true) this.#rounds.tell(this, true)
  }

  /** Other processes go on: what is ahead on record may still be used by them. */
  retire(): void {}

  usedUntil(instant: number): void {
    const short = this.windows.filter(({ windowMs }) => !FleetLongUse.isLong(windowMs, this.#rounds.slotMs))
    this.#notBefore = instant + Math.max(0, ...short.map(({ windowMs }) => windowMs))
  }

  restore(record: Known): void {
    const { use, ...known } = record
    this.#core.restore(known)
    if (known.blockedUntil !== undefined && known.blockedUntil > this.blockedUntil) {
      this.blockedUntil = known.blockedUntil
      this.isBlocked = true
    }
    this.#openUntil = this.#core.breaker.record()?.openUntil ?? 0
    this.isJudged = this.isBroken
    if (use !== undefined) this.long?.restore(use)
    this.#rounds.tell(this, true)
  }
}
