/**
 * Use of the long windows of an account that several processes call. The shared state counts them as it counts short ones,
 * and grants no more than the record covers; the judge of the pool writes the record ahead (write-ahead-usage.ts). So a
 * state that was lost is filled from the record: with what it holds, and with what was ahead as if made now.
 */
import type { Window } from '@sluice/limits'
import type { LongUse } from '../../ports/account-slots.ts'
import type { UseRecord } from '../../ports.ts'
import { carriedMsMax } from './fleet-tokens.ts'
import { useAsOf, WriteAheadUsage } from './write-ahead-usage.ts'

/** Slots of this process's kind that one ring has at most, without the first: wider windows have wider slots. */
export const ringMax = 128

/**
 * A token that was not used is not counted any more where it was taken back within this time after its slot, ms. Which of
 * those granted lately it was is not known, nor which of them are carried on for calls that are not written yet: each counts
 * by both times longer. That costs places behind a loss alone, where a call whose instant is still to come counts as made then.
 */
const unusedMsMax = 1_000

interface FleetUseTerms {
  /** The width of a slot of tokens. */
  readonly slotMs: number
  /** Asks for the record to be written. */
  readonly keep: (() => void) | undefined
}

export class FleetLongUse {
  readonly #use: WriteAheadUsage
  readonly #slotMs: number
  readonly #keep: (() => void) | undefined
  /** Tokens granted since the birth of the shared state, as far as this process has heard, and those taken back. */
  #seen = 0
  #unused = 0
  #covered = 0
  /** The number of calls that the record on disk covers, to be told. */
  #toCover: number | undefined
  #isFilled = true
  #needsFill = false
  /** True until this process has heard of a state that another process has filled. */
  #joins = false
  /** True until the use on record is read that this process has not heard of. */
  #needsRecord = false
  /** Calls that were ahead when the shared state was lost. */
  #lostAhead = 0

  /** True for a window that is counted in slots wider than those of tokens. */
  static isLong(windowMs: number, slotMs: number): boolean {
    return windowMs > slotMs * ringMax
  }

  /** Returns undefined where no window is long. */
  static of(
    windows: readonly Window[],
    terms: FleetUseTerms & { readonly marginMs: number },
  ): FleetLongUse | undefined {
    const { slotMs, marginMs } = terms
    const long = windows.filter(({ windowMs }) => FleetLongUse.isLong(windowMs + marginMs, slotMs))
    return long.length === 0 ? undefined : new FleetLongUse(new WriteAheadUsage(long, marginMs), terms)
  }

  private constructor(use: WriteAheadUsage, { slotMs, keep }: FleetUseTerms) {
    this.#use = use
    this.#slotMs = slotMs
    this.#keep = keep
  }

  /** Hears of the use of all processes. */
  hear(now: number, { total, unused, covered, isFilled }: LongUse, isJudge: boolean): void {
    this.#isFilled = isFilled
    this.#needsFill = isJudge && !isFilled
    if (!isFilled) return
    if (this.#joins) {
      this.#joins = false
      this.#seen = total
      this.#covered = covered
      this.#needsRecord = true
      // Whoever has filled it has counted as made what was ahead, and nothing is granted before more is on record.
      this.#use.giveUp()
    }
    if (this.#needsRecord) {
      // The record may lack the tokens that come back until it is read.
      this.#unused = Number.POSITIVE_INFINITY
      return
    }
    const newlyUnused = Math.max(0, unused - this.#unused)
    this.#unused = unused
    // They were granted before, as a rule: the newest calls that are counted until now.
    const left = this.#use.uncount(newlyUnused)
    for (; this.#seen < total; this.#seen += 1) {
      this.#use.take()
      this.#use.end(this.#lastAt(now))
    }
    this.#use.uncount(left)
    this.#covered = covered
    if (!isJudge) return
    if (this.#keep === undefined) this.#toCover = total + noBound
    else if (this.#use.asks()) this.#keep()
  }

  /**
   * Hears that the shared state was lost, and begins with no calls, or that this process has just joined it. Who does not
   * fill it reads the record all the same: a process that asks for tokens all the time hears of the use of others rarely,
   * and of what it has not heard before the loss it never hears. Its record would lack that when it judges later.
   */
  lost(): void {
    this.#joins = true
    this.#needsRecord = false
    this.#lostAhead = Math.max(0, this.#covered - this.#seen)
    this.#seen = 0
    this.#unused = 0
    this.#covered = 0
    this.#toCover = undefined
    this.#isFilled = false
  }

  /** True where this process should fill the shared state. */
  get needsFill(): boolean {
    return this.#needsFill
  }

  /** True where this process should read the use on record, to fill the shared state or to learn of it. */
  get readsRecord(): boolean {
    return this.#needsFill || this.#needsRecord
  }

  /** True where it should learn of the calls of before it joined. */
  get needsRecord(): boolean {
    return this.#needsRecord
  }

  /** Takes the use on record, read behind the first word of the shared state; calls ahead that were not made yet follow. */
  adopt(now: number, onRecord: UseRecord | undefined): void {
    this.#needsRecord = false
    const left = Math.max(0, this.#covered - this.#seen)
    const ahead = Math.max(0, (onRecord?.ahead ?? 0) - left)
    if (onRecord === undefined || useAsOf(now, { ...onRecord, ahead }) === undefined) return
    // They may have been granted until now, and a call that is carried on is made later.
    const granted = ahead === 0 ? [] : [[this.#lastAt(now), ahead] as const]
    this.#use.restore({ ...onRecord, calls: [...onRecord.calls, ...granted], ahead: 0 })
  }

  /** The latest instant at which a call may be made with a token of now. */
  #lastAt(now: number): number {
    return now + unusedMsMax + carriedMsMax + this.#slotMs
  }

  /** Returns the calls to fill with: by the record as the store has it, or else as this process knows it. */
  fill(now: number, onRecord: UseRecord | undefined): readonly number[] {
    this.#needsFill = false
    this.#joins = false
    // A record that came on disk meanwhile is the one that was read: what it had ahead counts as made.
    this.#toCover = undefined
    const known = onRecord ?? this.record(now, false)
    const use = known && useAsOf(now, known)
    this.#lostAhead = 0
    // The calls ahead count as made.
    this.#use.giveUp()
    if (use !== undefined) this.#use.restore(use)
    return use === undefined ? [] : use.calls.flat()
  }

  /** The number of calls that may be granted since the birth; undefined where nothing new is to be told. */
  get toCover(): number | undefined {
    return this.#isFilled && this.#toCover !== undefined && this.#toCover > this.#covered
      ? this.#toCover
      : undefined
  }

  /** The record: by the judge with calls ahead; by another process with those that it knows to be ahead. */
  record(now: number, isJudge: boolean): UseRecord | undefined {
    const record = this.#use.record(now)
    // Calls that it has not read of may have been made.
    if (record !== undefined && this.#needsRecord) return { ...record, ahead: record.ahead + this.#covered }
    if (record === undefined || isJudge) return record
    return { ...record, ahead: Math.max(0, this.#covered - this.#seen) + this.#lostAhead }
  }

  /** Called when the last record is on disk; true if more may be granted. */
  recorded(): boolean {
    this.#use.written()
    const { ahead } = this.#use
    if (ahead > 0) this.#toCover = this.#seen + ahead
    return this.toCover !== undefined
  }

  restore(use: UseRecord): void {
    this.#use.restore(use)
  }
}

/** Without a record nothing is written ahead. */
const noBound = 1_000_000_000
