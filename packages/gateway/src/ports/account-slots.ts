/**
 * The port to what the processes of a fleet share of the accounts of a pool: tokens of the present slot, calls under way,
 * verdicts, and the results from which verdicts are made. A process asks one question at a time for all accounts of a
 * pool. A state that was lost is born anew: it grants nothing until calls of before cannot be in a window any more.
 *
 * Instants are epoch milliseconds; an account is its index in the roster of the question.
 */

/**
 * The width of a slot, ms. A token lives for that long at most: the question for it, the right to send and the question to the
 * limits of the recipient have to fit in. A window W, kept longer by its margin, is counted in whole slots and one more: of its
 * rate at least W / (W + margin + 2 × width) can be used, 94 % of a second with a margin and a width of 20 ms.
 */
export const defaultSlotMs = 20

/** The accounts that a process calls, with the windows of their rates. */
export interface SlotRoster {
  /** Names the content: two rosters with the same name are equal. */
  readonly id: string
  readonly names: readonly string[]
  /** The most calls under way, by account. */
  readonly concurrency: readonly number[]
  readonly rules: readonly SlotRule[]
}

/** The window of one length: where no `run` of slots that are `width` times as wide holds more than the maximum, no window does. */
export interface SlotRule {
  /** Length with its margin, ms. */
  readonly windowMs: number
  readonly width: number
  readonly run: number
  /** The most calls by account; -1 where an account has no such window. */
  readonly max: readonly number[]
}

/** The demand and the news of one account. */
export interface SlotAsk {
  readonly account: number
  /** The wanted tokens; 0 for news only. */
  readonly want: number
  /** The share of its places that these tokens may not use. */
  readonly kept: number
  /** Calls of this process that are under way, with the tokens in its hand. */
  readonly busy: number
  /** Calls that are to be counted in the present slot, whatever it holds: they have a token of an earlier one. */
  readonly late: number
  /** Tokens to take back: slot, count, slot, count … */
  readonly back: readonly number[]
}

/** The verdict of the judge on an account. */
export interface SlotVerdict {
  readonly account: number
  /** The end of the cool-down of its breaker; 0 while that is closed. */
  readonly openUntil: number
  readonly coolDownMs: number
  /** The most calls under way; 0 where the configured maximum holds. */
  readonly concurrency: number
  /** The learned share of its rate, and the instant from which that rises. */
  readonly share: number
  readonly risesFrom: number
}

export interface SlotQuestion {
  readonly pool: string
  /** The process that asks. */
  readonly member: string
  /** The width of a slot, equal in all questions to one state: `defaultSlotMs`, or wider where the state is far away. */
  readonly slotMs: number
  /** Calls of a process that says nothing for so long have ended, ms. */
  readonly silentMs: number
  /** After a birth nothing is granted for so long at least, ms. */
  readonly coldMs: number
  /** A probe without a verdict is given to another process after this, ms. */
  readonly probeMs: number
  /** True if this process judges accounts of the pool. */
  readonly isJudge: boolean
  readonly roster: SlotRoster
  /** The birth of the state that this process knows: tokens of an earlier one are not taken back. */
  readonly bornAt: number
  /** The numbers of the last verdict and of the last results that this process knows. */
  readonly lastVerdict: number
  readonly lastResults: number
  /** Results of calls, for all processes. */
  readonly results: string | undefined
  /** True if the uses of windows are asked for. */
  readonly withUses: boolean
  readonly asks: readonly SlotAsk[]
  readonly verdicts: readonly SlotVerdict[]
  /** Open breakers of a state that was lost, told by any process: the judge may have died. A verdict of the judge counts. */
  readonly remembered: readonly SlotVerdict[]
  /**
   * Verdicts of a process that is no judge, where the results say something else of a breaker than the judge has told: they
   * count while no judge asks, as where it was killed.
   */
  readonly untold: readonly SlotVerdict[]
  /** Ends of blocks by account: account, instant. The latest counts. */
  readonly blocks: readonly (readonly [account: number, until: number])[]
  /** Accounts whose probe was not made. */
  readonly abandoned: readonly number[]
  /** Accounts whose probe is under way: a state that was lost marks it again. */
  readonly probing: readonly number[]
  /** The number of calls in long windows that the record covers since the birth, by account. */
  readonly covered: readonly (readonly [account: number, count: number])[]
  /** Use on record of long windows, by account: instant, count, instant, count … */
  readonly fills: readonly (readonly [account: number, ...calls: number[]])[]
}

/** The reason for which no more was granted. */
type SlotShortage = 'none' | 'out' | 'window' | 'concurrency' | 'record' | 'share'

export interface SlotGrant {
  readonly tokens: number
  readonly isProbe: boolean
  readonly shortage: SlotShortage
  /** Calls under way and tokens in hand, of all processes. */
  readonly busy: number
}

export interface HeardVerdict extends Pick<SlotVerdict, 'account' | 'openUntil' | 'coolDownMs'> {
  /** As in the verdict of the judge; undefined where none has spoken since the birth of the state. */
  readonly concurrency: number | undefined
  readonly blockedUntil: number
  /** The end of the mark of a probe. */
  readonly probedUntil: number
}

/** The state of an account with long windows, since the birth. */
export interface LongUse {
  readonly account: number
  /** Tokens that were granted. */
  readonly total: number
  /** Granted tokens that were taken back, no longer than a second after their slot. */
  readonly unused: number
  readonly covered: number
  /** True if the use on record is counted; before it nothing is granted. */
  readonly isFilled: boolean
}

export interface SlotAnswer {
  readonly slot: number
  /** The time that was left of the slot at the answer, ms. */
  readonly restMs: number
  /** Names the birth of the state. */
  readonly bornAt: number
  readonly lastVerdict: number
  readonly lastResults: number
  /** True if nothing was known of this process: it has to tell all its calls under way. */
  readonly isNewMember: boolean
  /** In the order of the asks. */
  readonly grants: readonly SlotGrant[]
  readonly verdicts: readonly HeardVerdict[]
  readonly results: readonly string[]
  /** The calls in the run of each rule, by account. */
  readonly uses: readonly (readonly number[])[]
  readonly long: readonly LongUse[]
}

export interface AccountSlots {
  /** Rejects with STATE_UNAVAILABLE; then the question may have been worked, but is not worked any more. */
  ask(question: SlotQuestion): Promise<SlotAnswer>
  /** Calls the listener where no token that was granted before is good any more. Absent where that does not happen. */
  onEnd?(listener: () => void): void
}
