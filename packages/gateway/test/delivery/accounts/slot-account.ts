/**
 * A model of an account whose state several processes share across a network: each takes tokens for a slot of 20 ms ahead
 * and has none until the answer came; one judge decides on the results of all, and its verdicts reach every process later.
 * A slot never gets more tokens than what leaves every run of slots that contains it at the maximum of its window.
 */
import {
  type AccountOptions,
  type AccountPolicy,
  PooledAccount,
} from '../../../src/delivery/accounts/account.ts'
import type {
  AccountChange,
  AccountListener,
  AccountState,
  CountedCall,
} from '../../../src/ports/accounts.ts'
import type { Account, AccountRecord, Clock, SendResult } from '../../../src/ports.ts'

const slotMs = 20
/** Tokens that a process asks for at once. */
const wantMax = 4

/** The verdicts as a process knows them. */
interface View {
  readonly blockedUntil: number
  readonly isBroken: boolean
  readonly probeAt: number | undefined
  readonly isOut: boolean
}

/** The shared part: what a script across the network keeps, and the judge. */
export class SharedAccount {
  readonly options: AccountOptions
  readonly judge: PooledAccount
  readonly #clock: Pick<Clock, 'now' | 'at'>
  readonly #answerMs: number
  readonly #members: MemberAccount[] = []
  /** Tokens by the number of their slot. */
  readonly #slots = new Map<number, number>()
  /** No tokens before this instant. */
  #bornAt = Number.NEGATIVE_INFINITY

  constructor(
    options: AccountOptions,
    policy: AccountPolicy,
    { clock, answerMs }: { readonly clock: Pick<Clock, 'now' | 'at'>; readonly answerMs: number },
  ) {
    this.options = options
    this.#clock = clock
    this.#answerMs = answerMs
    // Its rate is counted in slots here.
    this.judge = new PooledAccount({ ...options, windows: [] }, { ...policy, keep: undefined })
  }

  join(): AccountState {
    const member = new MemberAccount(this, this.#clock)
    this.#members.push(member)
    return member
  }

  /** Performs a call across the network, and answers. */
  send<T>(perform: () => T, answered?: (value: T) => void): void {
    this.#clock.at(this.#clock.now() + this.#answerMs, () => {
      const value = perform()
      if (answered !== undefined) this.#clock.at(this.#clock.now() + this.#answerMs, () => answered(value))
    })
  }

  /** Grants tokens of the present slot. */
  grant(member: MemberAccount): { readonly tokens: number; readonly until: number } {
    const now = this.#clock.now()
    const slot = Math.floor(now / slotMs)
    const until = (slot + 1) * slotMs
    const { judge } = this
    if (now < this.#bornAt || judge.waitsUntil > now) return { tokens: 0, until }
    const others = this.#members.reduce((sum, each) => sum + each.calls(now), 0)
    let tokens = Math.min(wantMax, judge.concurrency - others)
    for (const { max, windowMs } of this.options.windows) {
      let used = 0
      for (let each = slot - Math.ceil(windowMs / slotMs); each <= slot; each += 1)
        used += this.#slots.get(each) ?? 0
      tokens = Math.min(tokens, max - used)
    }
    if (judge.isBroken) {
      const { probeAt } = judge
      if (probeAt === undefined || probeAt > now || tokens < 1) return { tokens: 0, until }
      judge.beginProbe()
      member.mayProbe = true
      tokens = 1
    }
    tokens = Math.max(0, tokens)
    this.#slots.set(slot, (this.#slots.get(slot) ?? 0) + tokens)
    return { tokens, until }
  }

  /** Counts a call that was written later than its slot. */
  count(at: number): void {
    const slot = Math.floor(at / slotMs)
    this.#slots.set(slot, (this.#slots.get(slot) ?? 0) + 1)
  }

  bear(at: number): void {
    const longest = Math.max(0, ...this.options.windows.map(({ windowMs }) => windowMs))
    this.#bornAt = Math.max(this.#bornAt, at + longest)
  }

  /** Tells every process of the present verdicts. */
  tell(now: number, changes: readonly AccountChange[]): void {
    const view = this.view(now)
    this.#clock.at(this.#clock.now() + this.#answerMs, () => {
      for (const member of this.#members) member.hear(now, view, changes)
    })
  }

  view(now: number): View {
    const { blockedUntil, isBroken, probeAt } = this.judge
    return { blockedUntil, isBroken, probeAt, isOut: this.judge.isOut(now) }
  }
}

/** The part of one process. */
class MemberAccount implements AccountState {
  inFlight = 0
  /** True from the grant of the probe until it is begun. */
  mayProbe = false
  readonly #shared: SharedAccount
  readonly #clock: Pick<Clock, 'now'>
  #listener: AccountListener | undefined
  #tokens = 0
  #until = Number.NEGATIVE_INFINITY
  #isAsking = false
  #heldUntil = 0
  #view: View

  constructor(shared: SharedAccount, clock: Pick<Clock, 'now'>) {
    this.#shared = shared
    this.#clock = clock
    this.#view = shared.view(clock.now())
  }

  get account(): Account {
    return this.#shared.options.account
  }

  get ratePerSecond(): number | undefined {
    const [window] = [...this.#shared.options.windows].sort((a, b) => a.windowMs - b.windowMs)
    return window && (window.max / window.windowMs) * 1_000
  }

  get concurrency(): number {
    return this.#shared.judge.concurrency
  }

  get isBroken(): boolean {
    return this.#view.isBroken
  }

  get waitsUntil(): number {
    return Math.max(this.#view.blockedUntil, this.#heldUntil)
  }

  get probeAt(): number | undefined {
    const { probeAt } = this.#view
    return probeAt === undefined ? undefined : Math.max(probeAt, this.waitsUntil)
  }

  /** Calls under way, with tokens that may still become calls. */
  calls(now: number): number {
    return this.inFlight + (now < this.#until ? this.#tokens : 0)
  }

  freeAt(now: number): number | undefined {
    if (this.waitsUntil > now) return this.waitsUntil
    if (this.isBroken) {
      if (this.probeAt === undefined) return undefined
      if (this.probeAt > now) return this.probeAt
    }
    if (now < this.#until) return this.#tokens > 0 ? now : this.#until
    if (!this.#isAsking) this.#ask()
    return undefined
  }

  #ask(): void {
    this.#isAsking = true
    this.#shared.send(
      () => this.#shared.grant(this),
      ({ tokens, until }) => {
        this.#isAsking = false
        this.#tokens = this.#heldUntil > this.#clock.now() ? 0 : tokens
        this.#until = until
        if (this.#tokens === 0 && this.mayProbe) this.abandonProbe()
        this.#listener?.tokens()
      },
    )
  }

  take(now: number): number {
    this.#tokens -= 1
    this.inFlight += 1
    return now
  }

  beginProbe(): boolean {
    const { mayProbe } = this
    this.mayProbe = false
    return mayProbe
  }

  abandonProbe(): void {
    this.mayProbe = false
    this.#shared.send(() => {
      this.#shared.judge.abandonProbe()
      this.#shared.tell(this.#clock.now(), [])
    })
  }

  undo(): void {
    this.inFlight -= 1
  }

  renew(takenAt: number): number {
    return takenAt
  }

  move(_takenAt: number, later: number): number {
    this.#shared.count(later)
    return later
  }

  expect(_call: CountedCall): void {}
  left(_call: CountedCall): void {}
  forget(_call: CountedCall): void {}
  answered(_call: CountedCall, _now: number, _result: SendResult): void {}

  end(): void {
    this.inFlight -= 1
    // A place is free in this slot.
    if (this.#tokens === 0) this.#until = Number.NEGATIVE_INFINITY
  }

  listen(listener: AccountListener): void {
    this.#listener = listener
  }

  /** Hears of verdicts. A block or an open breaker voids the tokens in hand. */
  hear(now: number, view: View, changes: readonly AccountChange[]): void {
    this.#view = view
    this.#tokens = 0
    this.#until = Number.NEGATIVE_INFINITY
    this.#listener?.verdicts(now, changes)
    this.#listener?.tokens()
  }

  isOut(now: number): boolean {
    return this.waitsUntil > now || this.isBroken
  }

  isHeld(now: number): boolean {
    return this.#heldUntil > now
  }

  judge(now: number, result: SendResult, tookMs: number, probe: boolean): readonly AccountChange[] {
    this.#shared.send(() => {
      const { judge } = this.#shared
      const before = judge.isBroken
      const changes = judge.judge(now, result, tookMs, probe)
      if (changes.length > 0 || probe || before !== judge.isBroken) this.#shared.tell(now, changes)
    })
    return []
  }

  hold(until: number, now: number, since = now): void {
    this.#heldUntil = until
    this.#tokens = 0
    this.#until = Number.NEGATIVE_INFINITY
    this.#shared.judge.hold(until, now, since)
  }

  report(now: number) {
    return this.#shared.judge.report(now)
  }

  details(now: number) {
    return this.#shared.judge.details(now)
  }

  past(now: number) {
    return this.#shared.judge.past(now)
  }

  record(now: number) {
    return this.#shared.judge.record(now)
  }

  recorded(): void {}
  retire(): void {}

  usedUntil(instant: number): void {
    this.#shared.bear(instant)
  }

  restore(record: Pick<AccountRecord, 'blockedUntil' | 'outSince' | 'breaker' | 'use'>): void {
    this.#shared.judge.restore(record)
    this.#view = this.#shared.view(this.#clock.now())
  }
}
