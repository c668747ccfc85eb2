/**
 * The accounts of one provider that serve a channel. A lease is the permission to make one call now: an account has a
 * place in every window of its rate, is neither blocked nor broken, and has a free call; and the pool, while some of
 * its accounts are out, still admits a call. Accounts take turns.
 */
import type { Channel } from '../../model.ts'
import type { AccountChange, AccountState } from '../../ports/accounts.ts'
import type { AccountRecord, Provider, SendResult } from '../../ports.ts'
import type { AccountPast, PoolDetails, PoolLoad, PoolReport } from '../../stages.ts'
import { type AccountOptions, type AccountPolicy, PooledAccount, recheckMs } from '../accounts/account.ts'
import { type BreakerPolicy, defaultBreakerPolicy } from '../accounts/breaker.ts'
import { SlicedCount } from '../accounts/sliced-count.ts'
import { endpointOf, isFailure } from '../fault.ts'
import { RetryBudget } from '../retry-budget.ts'
import { defaultRetryPolicy, type RetryPolicy } from '../retry-policy.ts'
import { Lease } from './lease.ts'
import { LoadShedding } from './load-shedding.ts'
import { learnedRatio, poolDetails, poolReport, sum } from './pool-details.ts'
import { RoundRobin } from './round-robin.ts'

export interface PoolOptions {
  readonly channel: Channel
  readonly provider: Provider
  readonly accounts: readonly AccountOptions[]
  /** Extends each window, because calls bunch on the network. @defaultValue 20 ms */
  readonly marginMs: number
  readonly retry?: RetryPolicy
  /** Timeout of a call. @defaultValue 15_000 ms */
  readonly timeoutMs?: number
  readonly breaker?: BreakerPolicy
  /** Enables load shedding while accounts are out. @defaultValue true */
  readonly shedding?: boolean
  /** Maximum queue time while accounts are out. @defaultValue 5_000 ms */
  readonly shedAfterMs?: number
  /** Share of each account's places reserved for `critical` while there are any. @defaultValue 0.1 */
  readonly criticalShare?: number
  /** Bounds of adaptive concurrency, for slow accounts. @defaultValue none: always as configured */
  readonly adaptive?: { readonly min: number; readonly slowdown: number } | undefined
  /** The number of processes that call the pool's accounts. @defaultValue 1 */
  readonly memberCount?: () => number
  /** The instant at which the pool is created. */
  readonly now: number
  readonly onChange?: (pool: Pool, account: AccountState, change: AccountChange) => void
  /**
   * Requests that an account be written before it is called more often; `recorded` must follow. Absent: windows
   * longer than two seconds start empty with the process.
   */
  readonly keep?: (pool: Pool, account: AccountState) => void
  /** Makes the state of an account. @defaultValue one that knows the calls of this process only */
  readonly stateOf?: (options: AccountOptions, policy: AccountPolicy) => AccountState
}

/** Places stay reserved this long after the last critical notification, ms. */
const criticalMemoryMs = 10_000

export class Pool {
  readonly channel: Channel
  readonly provider: Provider
  readonly retry: RetryPolicy
  readonly timeoutMs: number
  readonly shedAfterMs: number
  readonly sheds: boolean
  readonly budget: RetryBudget
  readonly shedding: LoadShedding
  readonly #accounts: readonly AccountState[]
  readonly #turns: RoundRobin<AccountState>
  /** The same accounts without reserved places: for critical notifications, when the others have no turn left. */
  readonly #criticalTurns: RoundRobin<AccountState>
  readonly #criticalShare: number
  readonly #criticals = new SlicedCount(criticalMemoryMs, 10)
  readonly #onChange: PoolOptions['onChange']
  readonly #weights: ReadonlyMap<AccountState, number>
  readonly #weight: number
  readonly #out = new Set<AccountState>()
  /** The end of the first block. */
  #backAt = Number.POSITIVE_INFINITY
  /** The instant at which the first open breaker may be probed, and its account has a place for that. */
  #probeAt = Number.POSITIVE_INFINITY
  #kept = 0
  #shared = false
  readonly #newsListeners: (() => void)[] = []

  constructor(options: PoolOptions) {
    this.channel = options.channel
    this.provider = options.provider
    this.retry = options.retry ?? defaultRetryPolicy
    this.timeoutMs = options.timeoutMs ?? 15_000
    this.shedAfterMs = options.shedAfterMs ?? 5_000
    this.sheds = options.shedding ?? true
    this.budget = new RetryBudget({ share: this.retry.budget, memberCount: options.memberCount })
    this.#criticalShare = options.criticalShare ?? 0.1
    this.#onChange = options.onChange
    const policy = {
      marginMs: options.marginMs,
      breaker: options.breaker ?? defaultBreakerPolicy,
      adaptive: options.adaptive,
      isTold: this.provider.tellsWritten === true,
      keep: options.keep && ((account: AccountState) => options.keep?.(this, account)),
    }
    const { stateOf = (of, by) => new PooledAccount(of, by) } = options
    this.#accounts = options.accounts.map((account) => stateOf(account, policy))
    const members = this.#accounts
    this.#turns = new RoundRobin({
      members,
      freeAt: (account, now) => account.freeAt(now, this.#kept, this.#shared),
    })
    this.#criticalTurns = new RoundRobin({ members, freeAt: (account, now) => account.freeAt(now, 0, false) })
    // An account without a rate limit weighs as much as the largest that has one.
    const largest = Math.max(0, ...members.map((account) => account.ratePerSecond ?? 0)) || 1
    this.#weights = new Map(members.map((account) => [account, account.ratePerSecond ?? largest]))
    this.#weight = sum(this.#weights.values())
    this.shedding = new LoadShedding(
      { ratePerSecond: this.ratePerSecond, demandMs: this.shedAfterMs, enabled: this.sheds },
      options.now,
    )
    for (const account of members) this.#listen(account)
  }

  /** Sums the rates of all accounts; `undefined` where one has no limit. */
  get ratePerSecond(): number | undefined {
    if (this.#accounts.some((account) => account.ratePerSecond === undefined)) return undefined
    return sum(this.#accounts.map((account) => account.ratePerSecond!))
  }

  /** Sets whether several tenants wait for its places. */
  share(shared: boolean): void {
    this.#shared = shared
  }

  /** Gives up to `max` leases, the first `critical` of them for critical notifications. */
  lease(now: number, max: number, critical = 0): Lease[] {
    this.#refresh(now)
    if (critical > 0) this.#criticals.add(now, Math.min(critical, max))
    this.#keep(this.#criticals.sum(now) > 0 ? this.#criticalShare : 0)
    const leases: Lease[] = []
    const room = Math.min(max, this.shedding.room(now))
    while (leases.length < room) {
      const urgent = this.#kept > 0 && leases.length < critical
      const account = this.#turns.next(now) ?? (urgent ? this.#criticalTurns.next(now) : undefined)
      if (account === undefined) break
      leases.push(this.#leaseOf(account, now))
    }
    if (now >= this.#probeAt && leases.length < max) this.#probe(now, leases, max)
    return leases
  }

  /** Leases probes, which are not subject to load shedding: a probe is how an account comes back. */
  #probe(now: number, leases: Lease[], max: number): void {
    let next = Number.POSITIVE_INFINITY
    for (const account of this.#out) {
      if (leases.length === max) break
      const free = account.freeAt(now, 0, false) ?? now + recheckMs
      if (free <= now) leases.push(this.#leaseOf(account, now))
      else if (account.isBroken) next = Math.min(next, free)
    }
    this.#weigh(now)
    if (leases.length < max) this.#probeAt = Math.max(this.#probeAt, next)
  }

  /** Exchanges the lease for one of another account that is free, if any; that account keeps its turn. */
  exchange(lease: Lease, now: number): Lease {
    const account = this.#turns.other(now, lease.holder)
    if (account === undefined) return lease
    lease.undo()
    return this.#leaseOf(account, now)
  }

  /**
   * Keeps the account's turn, because the lease is for a retry. Otherwise, with two accounts, every retry on the good
   * one would bring the turn back to the failing one, and each message would meet that first.
   */
  keepTurn({ holder }: Lease): void {
    this.#turns.giveBack(holder)
  }

  #keep(kept: number): void {
    if (kept === this.#kept) return
    this.#kept = kept
    // Reserved places are available again: accounts may be free earlier than computed.
    if (kept === 0) for (const account of this.#accounts) this.#turns.changed(account)
  }

  #leaseOf(account: AccountState, now: number): Lease {
    const takenAt = account.take(now)
    const probe = account.beginProbe()
    this.shedding.carried(now, 1)
    this.shedding.take()
    const lease = new Lease({ pool: this, holder: account, givenAt: now, takenAt, probe })
    if (this.provider.tellsWritten === true) account.expect(lease)
    return lease
  }

  /** Takes back a lease without a call. */
  undo(lease: Lease): void {
    const { holder, givenAt, takenAt, probe } = lease
    holder.forget(lease)
    holder.undo(takenAt)
    if (probe) {
      holder.abandonProbe()
      this.#weigh(givenAt)
    }
    this.shedding.carried(givenAt, -1)
    this.shedding.giveBack()
    this.#changed(holder)
  }

  /** Applies the result of a lease's call and its duration. */
  judge(lease: Lease, now: number, result: SendResult, tookMs: number): void {
    const { holder, givenAt, probe } = lease
    holder.answered(lease, now, result)
    // A call refused by a 429 was not carried; it counts as demand again.
    if (result.outcome === 'rate_limited' && endpointOf(result) === undefined)
      this.shedding.carried(givenAt, -1)
    if (isFailure(result)) this.budget.failed(now)
    for (const change of holder.judge(now, result, tookMs, probe)) this.#apply(now, holder, change)
    // A probe without a verdict is made again.
    if (probe && holder.probeAt !== undefined) this.#weigh(now)
  }

  /** Tests if an account besides this one is healthy. */
  hasOther(account: AccountState): boolean {
    return this.#accounts.length - this.#out.size > (this.#out.has(account) ? 0 : 1)
  }

  /** Ends a settled call: another one may begin. */
  end({ holder, takenAt }: Lease): void {
    holder.end(takenAt)
    this.#turns.ended(holder)
    this.#criticalTurns.ended(holder)
  }

  /**
   * Keeps an account out until an instant, or ends that with 0. Load shedding sees one account out, whatever keeps it
   * out besides. Returns false where the pool has no such account.
   */
  hold(id: string, until: number, now: number, since = now): boolean {
    const account = this.#find(id)
    if (account === undefined) return false
    account.hold(until, now, since)
    if (account.isOut(now)) this.#out.add(account)
    this.#weigh(now)
    this.#changed(account)
    this.#tellNews()
    return true
  }

  #changed(account: AccountState): void {
    if (this.#out.has(account)) this.#probeAt = Math.min(this.#probeAt, account.probeAt ?? this.#probeAt)
    this.#turns.changed(account)
    this.#criticalTurns.changed(account)
  }

  #apply(now: number, account: AccountState, change: AccountChange): void {
    switch (change.kind) {
      case 'blocked':
      case 'opened':
        this.#out.add(account)
        this.#weigh(now)
        break
      case 'closed':
        this.#weigh(now)
        this.#changed(account)
        break
      case 'resized':
        this.provider.resize?.(account.account, change.concurrency)
        this.#changed(account)
    }
    this.#onChange?.(this, account, change)
    this.#tellNews()
  }

  /** Hears of what an account learns later: tokens, a probe that is free again or its own, and verdicts made elsewhere. */
  #listen(account: AccountState): void {
    account.listen({
      tokens: () => {
        this.#changed(account)
        this.#tellNews()
      },
      verdicts: (now, changes) => {
        for (const change of changes) this.#apply(now, account, change)
      },
    })
  }

  /** Calls the listener when an account went out or came back, or may be called earlier or later than before. */
  onNews(listener: () => void): void {
    this.#newsListeners.push(listener)
  }

  #tellNews(): void {
    for (const listener of this.#newsListeners) listener()
  }

  /** Brings back accounts whose block is over. */
  #refresh(now: number): void {
    if (now >= this.#backAt) this.#weigh(now)
  }

  #weigh(now: number): void {
    let out = 0
    this.#backAt = Number.POSITIVE_INFINITY
    this.#probeAt = Number.POSITIVE_INFINITY
    for (const account of this.#out) {
      if (!account.isOut(now)) {
        this.#out.delete(account)
        this.#changed(account)
        continue
      }
      out += this.#weights.get(account)!
      const { waitsUntil, probeAt } = account
      if (waitsUntil > now) this.#backAt = Math.min(this.#backAt, waitsUntil)
      if (probeAt !== undefined) this.#probeAt = Math.min(this.#probeAt, probeAt)
    }
    this.shedding.change(now, { outShare: this.#out.size === this.#accounts.length ? 1 : out / this.#weight })
  }

  /** Returns when an account is free, for a critical one in kept places too; `undefined`: when a call has ended. */
  freeAt(now: number, hasCritical = false): number | undefined {
    this.#refresh(now)
    const usual = this.#turns.freeAt(now)
    const kept = hasCritical && this.#kept > 0 ? this.#criticalTurns.freeAt(now) : undefined
    const free = usual === undefined || (kept !== undefined && kept < usual) ? kept : usual
    if (free === undefined || !this.shedding.isActive) return free
    const admits = this.shedding.freeAt(now)
    return Math.min(
      admits === undefined ? Number.POSITIVE_INFINITY : Math.max(free, admits),
      Math.max(now, this.#probeAt, free),
      // From that instant one account more is available, and more is admitted.
      Math.max(now, this.#backAt, free),
    )
  }

  /** Returns the condition: all accounts healthy, some out, or none left (all broken, or some blocked). */
  condition(now: number): 'whole' | 'reduced' | 'blocked' | 'broken' {
    this.#refresh(now)
    if (this.#out.size === 0) return 'whole'
    if (this.#out.size < this.#accounts.length) return 'reduced'
    return [...this.#out].every((account) => account.isBroken) ? 'broken' : 'blocked'
  }

  get inFlight(): number {
    return this.#accounts.reduce((total, account) => total + account.inFlight, 0)
  }

  async warm(): Promise<void> {
    const warming = this.#accounts.map(({ account }) => this.provider.warm?.(account))
    const warmed = await Promise.allSettled(warming)
    for (const result of warmed) {
      // A server that is down now may be back at the first message; a key that cannot be read stays unreadable.
      if (result.status === 'rejected' && (result.reason as { code?: string }).code === 'INVALID_CONFIG')
        throw result.reason
    }
  }

  /** Returns the state of one account that outlives a restart. */
  record(account: AccountState, now: number): AccountRecord {
    const { channel, provider } = this
    return { channel, provider: provider.name, account: account.account.id, ...account.record(now) }
  }

  /**
   * Restores the accounts on record when the process began.
   * @param usedUntil another process may have used the accounts until this instant
   */
  restore(now: number, records: readonly AccountRecord[], usedUntil?: number): void {
    if (usedUntil !== undefined) for (const account of this.#accounts) account.usedUntil(usedUntil)
    for (const record of records) {
      if (record.channel !== this.channel || record.provider !== this.provider.name) continue
      const account = this.#find(record.account)
      account?.restore(record)
      if (account?.isOut(now)) this.#out.add(account)
    }
    if (this.#out.size > 0) this.#weigh(now)
  }

  /** Returns the rate of the pool, how much of it is learned and admitted now, and its calls in flight. */
  load(now: number): PoolLoad {
    const { ratePerSecond, inFlight, shedding } = this
    const admittedPerSecond = shedding.isActive ? shedding.admitted(now) : ratePerSecond
    return { ratePerSecond, learnedRatio: learnedRatio(this.#weights, now), admittedPerSecond, inFlight }
  }

  /** Reports the pool with what an operator looks at besides; `waiting` is known to the queue alone. */
  details(now: number): Omit<PoolDetails, 'waiting'> {
    return poolDetails(this.report(now), this.load(now), this.#accounts, this.budget.left(now), now)
  }

  /** Returns the recent past of an account; `undefined` where it is of another pool. */
  past(id: string, now: number): AccountPast | undefined {
    return this.#find(id)?.past(now)
  }

  #find(id: string): AccountState | undefined {
    return this.#accounts.find((each) => each.account.id === id)
  }

  report(now: number): PoolReport {
    return poolReport(this, this.#accounts, now)
  }
}
