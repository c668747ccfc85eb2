/**
 * The accounts of one pool that several processes call. The process asks one question at a time for all of them, which takes
 * along everything that it has to tell: demand, calls under way, results, verdicts. It asks when something is wanted, at
 * the end of a slot in which something has changed, and now and then while nothing has.
 */
import {
  type AccountSlots,
  defaultSlotMs,
  type SlotAnswer,
  type SlotAsk,
  type SlotQuestion,
  type SlotRoster,
} from '../../ports/account-slots.ts'
import type { AccountState } from '../../ports/accounts.ts'
import type { Clock, SendResult, UseRecord } from '../../ports.ts'
import type { AccountOptions, AccountPolicy } from './account.ts'
import { FleetAccount } from './fleet-account.ts'
import { FleetResults, judgedPartOf } from './fleet-results.ts'
import { rosterOf, usesOf } from './fleet-roster.ts'
import type { FleetRounds } from './fleet-rounds.ts'

export interface FleetPoolOptions {
  readonly slots: AccountSlots
  readonly clock: Pick<Clock, 'now' | 'at' | 'soon'>
  /** The name of this process, as no other process has it. */
  readonly member: string
  /** True while this process judges the account; without one, while it judges any of the pool. */
  readonly isJudge: (pool: string, account?: string) => boolean
  /**
   * Reads the use on record of the accounts of a pool, from which a lost state is filled.
   * @defaultValue what this process knows
   */
  readonly readUse?: ((pool: string) => Promise<ReadonlyMap<string, UseRecord>>) | undefined
  /** How long a token lives at most, ms, equal in all processes of a fleet. @defaultValue `defaultSlotMs` */
  readonly slotMs?: number | undefined
  /** The longest time that a call takes, ms: after it the calls of a dead process have ended. @defaultValue 15_000 */
  readonly callMs?: number | undefined
  readonly onError?: ((error: unknown) => void) | undefined
}

/**
 * Between two questions without a demand, ms: by the judge while it hears of calls; by whoever has calls under way or knows
 * of a block; and by a process that has nothing to tell and has heard nothing lately. The judge never rests for long: the
 * first failure is heard soon.
 */
const judgeMs = 50
const idleMs = 250
const restMs = 1_000
/** While the last news of a pool is no older than this, more is expected, ms. */
const livelyMs = 500
/**
 * Time behind the birth of a state in which nothing is granted, ms: every process that has calls under way, or knows of a
 * block, has asked in it, for it asks every `idleMs`.
 */
const coldMs = 2 * idleMs + 100
/** After a question without an answer nothing is asked for so long, ms. */
const pauseMs = 50
/** Tokens that are asked for at first, and at most. */
const demandMin = 2
const demandMax = 8_192

export class FleetPool implements FleetRounds<FleetAccount> {
  readonly slotMs: number
  readonly #name: string
  readonly #options: FleetPoolOptions
  readonly #accounts: FleetAccount[] = []
  readonly #byId = new Map<string, FleetAccount>()
  /** Accounts that want tokens, in the order of their questions. */
  readonly #wanting = new Set<FleetAccount>()
  /** Accounts that may have something to tell. */
  readonly #telling = new Set<FleetAccount>()
  readonly #results: FleetResults
  #roster: SlotRoster | undefined
  #bornAt = 0
  #lastVerdict = 0
  #lastResults = 0
  /** The instant of the last question that told of results or verdicts, or whose answer did. */
  #newsAt = 0
  #probedAt = 0
  /** Tokens to ask for, of all accounts: more while all are used, fewer when some are not. */
  #demand = demandMin
  #inHand = 0
  /** Tokens of the last answer. */
  #granted = 0
  #slotEndsAt = 0
  #turns = 0
  #asking: Promise<void> | undefined
  #isUrgent = false
  #willAsk = false
  #askFrom = 0
  #isFilling = false
  readonly #fills = new Map<FleetAccount, readonly number[]>()
  #disarm: (() => void) | undefined
  #isClosed = false

  constructor(name: string, options: FleetPoolOptions) {
    this.#name = name
    this.#options = options
    this.slotMs = options.slotMs ?? defaultSlotMs
    this.#results = new FleetResults(options.member)
    options.slots.onEnd?.(() => this.#end())
  }

  add(options: AccountOptions, policy: AccountPolicy): AccountState {
    const account = new FleetAccount(options, policy, this.#accounts.length, this)
    this.#accounts.push(account)
    this.#byId.set(options.account.id, account)
    this.#roster = undefined
    this.#askSoon()
    return account
  }

  now(): number {
    return this.#options.clock.now()
  }

  isJudge(account?: FleetAccount): boolean {
    return this.#options.isJudge(this.#name, account?.account.id)
  }

  want(account: FleetAccount): void {
    this.#wanting.add(account)
    this.#askSoon()
  }

  nextAt(now: number): number {
    while (this.#slotEndsAt <= now) {
      const behind = now - this.#slotEndsAt
      this.#slotEndsAt = behind > this.slotMs ? now + this.slotMs : this.#slotEndsAt + this.slotMs
    }
    // Accounts come again in the order in which they were asked.
    this.#turns = (this.#turns + 1) % 1_024
    return this.#slotEndsAt + this.#turns / 1_024
  }

  tell(account: FleetAccount, isUrgent: boolean): void {
    this.#telling.add(account)
    if (isUrgent) this.#askSoon()
    else this.#arm()
  }

  held(tokens: number, unused: number): void {
    this.#inHand += tokens
    if (unused === 0) return
    const used = Math.max(0, this.#granted - unused)
    this.#demand = Math.max(demandMin, Math.min(Math.ceil(this.#demand / 2), 2 * used))
  }

  report(account: FleetAccount, at: number, result: SendResult, tookMs: number, probe: boolean): void {
    const { busy, account: of } = account
    this.#results.add([of.id, at, Math.round(tookMs), probe ? 1 : 0, judgedPartOf(result), busy])
    if (probe) this.#probedAt = at
    if (result.outcome === 'delivered' && !probe) this.#arm()
    else this.#askSoon()
  }

  async close(): Promise<void> {
    await this.#asking
    this.#wanting.clear()
    this.#isClosed = true
    this.#disarm?.()
    await this.#ask()
    // A batch that had no answer was told again alone.
    if (!this.#results.isEmpty) await this.#ask()
  }

  #end(): void {
    for (const account of this.#accounts) account.ended()
    this.#askSoon()
  }

  /** Asks in this turn of the event loop, or when the present question is answered. */
  #askSoon(): void {
    this.#isUrgent = true
    if (this.#asking !== undefined || this.#willAsk || this.#isClosed) return
    if (this.now() < this.#askFrom) {
      this.#arm()
      return
    }
    this.#willAsk = true
    this.#options.clock.soon(() => {
      this.#willAsk = false
      if (!this.#isClosed) this.#start()
    })
  }

  #start(): void {
    if (this.#asking !== undefined) return
    this.#asking = this.#ask().finally(() => {
      this.#asking = undefined
      if (this.#isClosed) return
      if (this.#isUrgent) this.#askSoon()
      this.#arm()
    })
  }

  /** Sets the timer of the next question: the end of the slot where there is news, else some time later. */
  #arm(): void {
    if (this.#isClosed || this.#asking !== undefined) return
    const now = this.now()
    const hasNews = this.#telling.size > 0 || !this.#results.isEmpty || this.#isUrgent
    const at = hasNews ? Math.floor(this.nextAt(now)) + 1 : now + this.#pauseMs(now)
    this.#disarm?.()
    this.#disarm = this.#options.clock.at(Math.max(at, this.#askFrom), () => this.#start())
  }

  /** Returns the time until the next question where there is nothing to tell, ms. */
  #pauseMs(now: number): number {
    // A probe may be under way anywhere, and calls go elsewhere meanwhile; the judge may have died before it spoke.
    const isLively =
      now - this.#newsAt < livelyMs || this.#accounts.some(({ isBroken, isUntold }) => isBroken || isUntold)
    // The judge has the result of the probe by now, and calls may wait for the verdict here.
    if (now - this.#probedAt < idleMs) return judgeMs
    // Calls in long windows wait until the judge has heard of the calls before them, and has covered more on record.
    if (this.isJudge()) return isLively || this.#accounts.some(({ long }) => long) ? judgeMs : idleMs
    // After a loss tokens are granted when `coldMs` have passed: calls and blocks are told again before that.
    const hasToTell = this.#accounts.some(({ inFlight, blockedUntil }) => inFlight > 0 || blockedUntil > now)
    return isLively || hasToTell ? idleMs : restMs
  }

  async #ask(): Promise<void> {
    const now = this.now()
    this.#isUrgent = false
    const asks = this.#asks(now)
    const results = this.#results.next()
    const judged = this.#accounts.filter((each) => each.isJudged || (each.isUntold && this.isJudge(each)))
    const own = judged.filter((each) => this.isJudge(each))
    const blocked = this.#accounts.filter(({ isBlocked }) => isBlocked)
    const abandoned = this.#accounts.filter(({ hasAbandoned }) => hasAbandoned)
    const fills = [...this.#fills]
    if (results !== undefined || judged.length + blocked.length > 0) this.#newsAt = now
    for (const account of judged) account.isJudged = false
    for (const account of blocked) account.isBlocked = false
    for (const account of abandoned) account.hasAbandoned = false
    const question: SlotQuestion = {
      pool: this.#name,
      member: this.#options.member,
      slotMs: this.slotMs,
      silentMs: this.#callMs + 2_000,
      coldMs,
      probeMs: this.#callMs + 5_000,
      isJudge: this.isJudge(),
      roster: this.#rosterOf(),
      bornAt: this.#bornAt,
      lastVerdict: this.#lastVerdict,
      lastResults: this.#lastResults,
      results,
      withUses: asks.every(({ ask }) => ask.want === 0) || this.isJudge(),
      asks: asks.map(({ ask }) => ask),
      verdicts: own.map((account) => account.verdict(now)),
      remembered: judged.filter((each) => !own.includes(each)).map((account) => account.verdict(now)),
      untold: this.#accounts
        .filter((each) => each.isUntold && !this.isJudge(each))
        .map((account) => account.verdict(now)),
      blocks: blocked.map(({ index, blockedUntil }) => [index, blockedUntil]),
      abandoned: abandoned.map(({ index }) => index),
      probing: this.#accounts.filter(({ isProbing }) => isProbing).map(({ index }) => index),
      covered: this.#accounts.flatMap(({ index, long }) =>
        long?.toCover === undefined ? [] : [[index, long.toCover] as const],
      ),
      fills: fills.map(([{ index }, calls]) => [index, ...calls]),
    }
    try {
      const answer = await this.#options.slots.ask(question)
      this.#results.answered()
      for (const [account] of fills) this.#fills.delete(account)
      this.#hear(answer, asks, now)
    } catch (error) {
      this.#askFrom = this.now() + pauseMs
      for (const { account } of asks) account.hearNothing()
      // Each of these may be told twice.
      for (const account of judged) account.isJudged = true
      for (const account of blocked) account.isBlocked = true
      for (const account of abandoned) account.hasAbandoned = true
      for (const { account } of asks) this.#telling.add(account)
      this.#options.onError?.(error)
    }
  }

  get #callMs(): number {
    return this.#options.callMs ?? 15_000
  }

  /** Collects what the accounts have to tell, and shares the demand among those that want tokens. */
  #asks(now: number): readonly Told[] {
    const wanting = [...this.#wanting]
    this.#wanting.clear()
    if (wanting.length > 0 && this.#inHand === 0) this.#demand = Math.min(demandMax, this.#demand * 2)
    const each = Math.max(1, Math.ceil(this.#demand / Math.max(1, wanting.length)))
    const asks: Told[] = []
    let left = this.#demand
    for (const account of wanting) {
      if (left <= 0) break
      const want = Math.min(each, left)
      left -= want
      this.#telling.delete(account)
      asks.push({ account, ask: account.ask(now, want) })
    }
    for (const account of this.#telling) {
      if (account.hasNews(now)) asks.push({ account, ask: account.ask(now, 0) })
      if (!account.isOpen) this.#telling.delete(account)
    }
    return asks
  }

  #hear(answer: SlotAnswer, asks: readonly Told[], sentAt: number): void {
    const now = this.now()
    // The clock shows whole milliseconds, and so does that of the answer.
    const until = sentAt + answer.restMs - 1
    // A question that comes before the end of the slot is answered by that slot.
    this.#slotEndsAt = now + answer.restMs
    const isBorn = answer.bornAt !== this.#bornAt
    if (isBorn || answer.isNewMember) {
      for (const account of this.#accounts) {
        account.forgotten(now, isBorn)
        this.#telling.add(account)
      }
      this.#isUrgent = true
    }
    this.#bornAt = answer.bornAt
    if (isBorn || answer.verdicts.length + answer.results.length > 0) this.#newsAt = now
    this.#lastVerdict = isBorn ? 0 : answer.lastVerdict // They are numbered anew: the next answer tells all of them.
    for (const verdict of answer.verdicts) this.#accounts[verdict.account]?.hearVerdict(now, verdict)
    let granted = 0
    for (const [index, { account, ask }] of asks.entries()) {
      const grant = answer.grants[index]!
      granted += grant.tokens
      account.hearGrant(now, ask, grant, answer.slot, until)
      if (account.isOpen) this.#telling.add(account)
    }
    this.#granted = granted
    this.#hearResults(answer)
    for (const verdict of answer.verdicts) this.#accounts[verdict.account]?.followBlock()
    for (const account of this.#accounts)
      if (answer.uses.length > 0) account.uses = usesOf(account, this.#rosterOf(), answer.uses)
    for (const long of answer.long) {
      const account = this.#accounts[long.account]
      account?.long?.hear(now, long, this.isJudge(account))
    }
    if (this.#accounts.some(({ long }) => long?.readsRecord === true)) this.#fill()
    if (this.#accounts.some(({ long }) => long?.toCover !== undefined)) this.#isUrgent = true
  }

  #hearResults({ results, lastResults }: SlotAnswer): void {
    this.#lastResults = lastResults
    for (const batch of results)
      for (const [id, at, tookMs, probe, result, busy] of this.#results.hear(batch)) {
        const account = this.#byId.get(id)
        if (account === undefined) continue
        if (!account.hearResult(at, result, tookMs, probe === 1, busy) || !this.isJudge(account)) continue
        account.isJudged = true
        this.#isUrgent = true
      }
  }

  /** Fills the long windows of a state that was lost, and learns what was counted before this process joined. */
  #fill(): void {
    if (this.#isFilling) return
    this.#isFilling = true
    // One that needs it later reads it again: this may be a record of before.
    const needing = this.#accounts.filter(({ long }) => long?.readsRecord === true)
    const reading = this.#options.readUse?.(this.#name) ?? Promise.resolve(undefined)
    reading
      .then((records) => {
        const now = this.now()
        for (const account of needing) {
          const record = records?.get(account.account.id)
          if (account.long?.needsRecord === true) account.long.adopt(now, record)
          if (account.long?.needsFill === true) this.#fills.set(account, account.long.fill(now, record))
        }
        this.#askSoon()
      })
      .catch((error: unknown) => this.#options.onError?.(error))
      .finally(() => {
        this.#isFilling = false
      })
  }

  #rosterOf(): SlotRoster {
    this.#roster ??= rosterOf(this.#accounts, this.slotMs)
    return this.#roster
  }
}

interface Told {
  readonly account: FleetAccount
  readonly ask: SlotAsk
}
