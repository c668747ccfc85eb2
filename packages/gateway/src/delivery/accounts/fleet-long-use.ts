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

/**
 * A judge that was killed is replaced within this, ms: until it is declared dead, and until the next beat of whoever gets its
 * role. Meanwhile nobody writes the record ahead, and an account with few places in a window of seconds would stand still (seed
 * 240,510 of four gateways). So as many calls as were made within the last time as long are kept ahead, but no more than its
 * rate is over that time: a burst in a window of an hour does not fill the next one behind a loss.
 */
export const judgelessMsMax = 16_000

/** Grants that were heard within this time count as one, ms. */
const togetherMs = 1_000

interface FleetUseTerms {
  /** The width of a slot of tokens. */
  readonly slotMs: number
  /** Asks for the record to be written. */
  readonly keep: (() => void) | undefined
}

export class FleetLongUse {
  readonly #use: WriteAheadUsage
  /** The most calls that are kept ahead for a time without a judge. */
  readonly #keptMax: number
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
  /** Tokens that were granted of late and not taken back, by the instants from which that was heard, oldest first. */
  #granted: { readonly from: number; count: number }[] = []
  /** True if this process was the judge when it heard of the use last. */
  #wasJudge = true

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
    if (long.length === 0) return undefined
    const keptMax = Math.min(...windows.map(({ max, windowMs }) => (max * judgelessMsMax) / windowMs))
    return new FleetLongUse(new WriteAheadUsage(long, marginMs), Math.floor(keptMax), terms)
  }

  private constructor(use: WriteAheadUsage, keptMax: number, { slotMs, keep }: FleetUseTerms) {
    this.#use = use
    this.#keptMax = keptMax
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
      this.#wasJudge = isJudge
      this.#needsRecord = true
      // Whoever has filled it has counted as made what was ahead, and nothing is granted before more is on record.
      this.#use.giveUp()
    }
    if (this.#needsRecord) {
      // The record may lack the tokens that come back until it is read.
      this.#unused = Number.POSITIVE_INFINITY
      this.#wasJudge &&= isJudge
      return
    }
    const newlyUnused = Math.max(0, unused - this.#unused)
    this.#unused = unused
    // They were granted before, as a rule: the newest calls that are counted until now.
    const left = this.#use.uncount(newlyUnused)
    this.#grant(now, total - this.#seen - newlyUnused)
    for (; this.#seen < total; this.#seen += 1) {
      this.#use.take()
      this.#use.end(this.#lastAt(now))
    }
    this.#use.uncount(left)
    this.#covered = covered
    const isNewJudge = isJudge && !this.#wasJudge
    this.#wasJudge = isJudge
    if (!isJudge) return
    if (this.#keep === undefined) this.#toCover = total + noBound
    // The judge of before may have more ahead on record than it has told, and may still tell it.
    else if (isNewJudge) this.#needsRecord = true
    else if (this.#use.asks(this.#toKeep(now))) this.#keep()
  }

  /** Notes granted tokens, without those that were taken back. */
  #grant(now: number, count: number): void {
    if (count === 0) return
    const last = this.#granted.at(-1)
    if (last !== undefined && now < last.from + togetherMs) last.count += count
    else this.#granted.push({ from: now, count })
    if (this.#granted.length > (2 * judgelessMsMax) / togetherMs) this.#granted.shift()
  }

  /** The number of calls to keep ahead: all processes made so many within the time in which nobody may be judge. */
  #toKeep(now: number): number {
    this.#granted = this.#granted.filter(({ from }) => from + judgelessMsMax > now)
    const granted = this.#granted.reduce((sum, { count }) => sum + count, 0)
    return Math.max(0, Math.min(this.#keptMax, granted))
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
    this.#wasJudge = true
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
    if (record === undefined) return undefined
    const ahead = Math.max(0, this.#covered - this.#seen)
    // Another judge has covered them, if this one has not.
    if (isJudge) return { ...record, ahead: Math.max(record.ahead, ahead) }
    return { ...record, ahead: ahead + this.#lostAhead }
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
