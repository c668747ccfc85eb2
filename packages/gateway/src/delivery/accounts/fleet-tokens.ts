/**
 * Tokens of one account that this process holds, and the calls that have one and are not written yet. A call that is still
 * not written when its slot is over counts in the next one, slot after slot, so that the places of others are computed
 * with it. Pure: the caller passes the time.
 */
import type { SlotGrant } from '../../ports/account-slots.ts'
import { lateMsMax, uncountedMsMax } from './counted-lease.ts'

/** A call that is not written. */
interface OpenCall {
  /** The slot in which it counts; undefined where that is not known, because an answer was lost, or where it has no place. */
  slot: number | undefined
  /** The last slot of which it is known that it counted in it. */
  counted: number
  /** The end of the slot in which it counts. */
  until: number
  /** False where others may have taken its place: it needs another token. */
  hasPlace: boolean
  /** True while a question is under way that counts it in the present slot. */
  isMoving: boolean
  /** True where the provider tells when it is written. */
  isExpected: boolean
}

interface FleetTokensOptions {
  /** The width of a slot. */
  readonly slotMs: number
  /** The time by which the windows are kept longer. */
  readonly marginMs: number
  /** The length of the shortest window, with the margin; undefined where there is none. */
  readonly shortestMs: number | undefined
  /** True if the provider tells when a call is written. */
  readonly isTold: boolean
}

/**
 * A call that is not written so long after it got its token needs another one, ms. A mail server has as long for its greeting
 * and the rest. The use of long windows counts on it (fleet-long-use.ts).
 */
export const carriedMsMax = 10_000

/** Calls have different instants, so that the end of one never is that of another. */
const apartMs = 0.001

export class FleetTokens {
  /** Tokens in hand; those that only critical notifications may use stand apart. */
  #count = 0
  #critical = 0
  #slot = 0
  #until = Number.NEGATIVE_INFINITY
  /** The instant until which they are good: the end of their slot, or as long again where they came behind it. */
  #goodUntil = Number.NEGATIVE_INFINITY
  #isProbe = false
  /** Calls by the instants at which they were taken. Bounded by the calls under way. */
  readonly #open = new Map<number, OpenCall>()
  #lastTakenAt = 0
  /** Tokens to take back, by slot. A handful: a token lives for a slot, and every question takes them along. */
  #back = new Map<number, number>()
  /** Calls that count in the present slot without a token of it. */
  #late = 0
  #lateAsked = 0
  /** Calls that a question under way counts in the present slot, where they have no place any more. */
  #backWhenTold = 0
  readonly #slackMs: number
  /** The slots of the shortest window: a call that was counted no more slots ago than these is still in every window. */
  readonly #keptSlots: number
  /** A call that was not counted for so long is not written any more, ms. */
  readonly #uncountedMs: number
  /** False for an account without windows: its tokens bound the calls under way, and it does not matter when a call leaves. */
  readonly #hasWindows: boolean
  readonly #isTold: boolean
  readonly #slotMs: number

  constructor({ slotMs, marginMs, shortestMs, isTold }: FleetTokensOptions) {
    this.#slackMs = Math.max(lateMsMax, marginMs / 2)
    this.#hasWindows = shortestMs !== undefined
    this.#keptSlots = Math.floor((shortestMs ?? Number.POSITIVE_INFINITY) / slotMs)
    this.#uncountedMs = Math.min(uncountedMsMax, (shortestMs ?? Number.POSITIVE_INFINITY) / 4)
    this.#isTold = isTold
    this.#slotMs = slotMs
  }

  get inHand(): number {
    return this.#count + this.#critical
  }

  /** True if the token in hand is that of a probe. */
  get isProbe(): boolean {
    return this.#isProbe && this.inHand > 0
  }

  /** True if there is something to tell besides the calls under way. */
  get hasNews(): boolean {
    return this.#late > 0 || this.#back.size > 0
  }

  /** Tests if a call may be made now with what is in hand. */
  has(now: number, isCritical: boolean): boolean {
    return now < this.#goodUntil && (this.#count > 0 || (isCritical && this.#critical > 0))
  }

  /**
   * Puts granted tokens in hand. An answer may come late in its slot or behind it, where all cores are busy: then a call whose
   * writing is told may begin as long as a slot later, for one that is not written counts in the next slot in any case.
   * Returns how many more are in hand.
   */
  give(
    { tokens, isProbe }: SlotGrant,
    slot: number,
    until: number,
    isCritical: boolean,
    now: number,
  ): number {
    const before = this.inHand
    if (slot !== this.#slot) this.drop()
    this.#slot = slot
    this.#until = until
    const isGood = this.#isTold && now < until + this.#uncountedMs / 2
    this.#goodUntil = isGood ? Math.max(until, now + this.#slotMs) : until
    this.#isProbe = isProbe && tokens > 0
    if (isCritical) this.#critical += tokens
    else this.#count += tokens
    return this.inHand - before
  }

  /** Gives all tokens in hand back; returns how many there were. */
  drop(): number {
    const dropped = this.inHand
    if (dropped > 0) this.#giveBack(this.#slot, dropped)
    this.#count = 0
    this.#critical = 0
    this.#isProbe = false
    return dropped
  }

  /** Takes a token; returns the instant by which its call is known. */
  take(now: number): number {
    if (this.#count > 0) this.#count -= 1
    else this.#critical -= 1
    if (!this.#hasWindows) return now
    this.#lastTakenAt = Math.max(now, this.#lastTakenAt + apartMs)
    this.#open.set(this.#lastTakenAt, {
      slot: this.#slot,
      counted: this.#slot,
      until: this.#until,
      hasPlace: true,
      isMoving: false,
      isExpected: false,
    })
    return this.#lastTakenAt
  }

  /** Gives the token of a call back that is not made; true if it is in hand again. */
  undo(takenAt: number, now: number): boolean {
    if (!this.#hasWindows) {
      if (now >= this.#until || this.#isProbe) return false
      this.#count += 1
      return true
    }
    const call = this.#open.get(takenAt)
    if (call === undefined) return false
    const { slot } = call
    this.close(takenAt)
    if (call.isMoving) this.#backWhenTold += 1
    if (call.isMoving || slot === undefined) return false
    if (slot === this.#slot && now < this.#until && !this.#isProbe) {
      this.#count += 1
      return true
    }
    this.#giveBack(slot, 1)
    return false
  }

  /**
   * Returns the instant by which a call is known that is made now; undefined where it may not be made. One whose writing is
   * told is counted anew in slot after slot until then, and is asked for once more.
   */
  renew(takenAt: number, now: number): number | undefined {
    const call = this.#open.get(takenAt)
    if (call === undefined) return takenAt
    if (now < call.until + (call.isExpected ? this.#uncountedMs : this.#slackMs)) {
      if (!call.isExpected) this.close(takenAt)
      return takenAt
    }
    if (!this.has(now, false) || this.isProbe || call.isExpected) return undefined
    this.undo(takenAt, now)
    const renewed = this.take(now)
    this.close(renewed)
    return renewed
  }

  /** Tests if a call that is not written yet was counted lately: its slot ended a moment ago at most. */
  mayLeave(takenAt: number, now: number): boolean {
    const call = this.#open.get(takenAt)
    return call === undefined || now < call.until + this.#uncountedMs
  }

  /** Counts a call that was written later than its slot, and only such a one; returns true where it was. */
  move(takenAt: number, later: number): boolean {
    if (!this.#hasWindows) return false
    const call = this.#open.get(takenAt)
    if (call !== undefined && later < call.until + this.#slackMs) return false
    if (call?.isMoving === true) this.#backWhenTold += 1
    else if (call?.slot !== undefined) this.#giveBack(call.slot, 1)
    this.close(takenAt)
    this.#late += 1
    return true
  }

  /** Marks a call as written; returns true where it moved, as its token had come behind its slot. */
  left(takenAt: number, at: number): boolean {
    const isMoved = this.#open.has(takenAt) && this.move(takenAt, at)
    this.close(takenAt)
    return isMoved
  }

  expect(takenAt: number, isExpected: boolean): void {
    const call = this.#open.get(takenAt)
    if (call !== undefined) call.isExpected = isExpected
  }

  /** Ends the wait for a call to be written; it may be told more than once. */
  close(takenAt: number): void {
    this.#open.delete(takenAt)
  }

  /** The earliest end of a slot of calls that are not written; undefined where there are none. */
  overdueAt(): number | undefined {
    let first: number | undefined
    for (const { hasPlace, until } of this.#open.values())
      if (hasPlace && (first === undefined || until < first)) first = until
    return first
  }

  /** Returns what the next question tells: calls that count in the present slot, and tokens to take back. */
  tell(now: number): { readonly late: number; readonly back: readonly number[] } {
    this.#lateAsked = this.#late
    let late = this.#late
    this.#late = 0
    for (const [takenAt, call] of this.#open) {
      if (call.until > now || !call.hasPlace) continue
      if (now - takenAt > carriedMsMax) {
        this.#losePlace(call)
        continue
      }
      call.isMoving = true
      late += 1
      if (call.slot !== undefined) this.#giveBack(call.slot, 1)
    }
    const back = [...this.#back].flat()
    this.#back = new Map()
    return { late, back }
  }

  /**
   * Hears that the question was worked in this slot. Where calls were counted so long ago that a window had room for others
   * meanwhile, those have their places.
   */
  told(slot: number, until: number): void {
    if (this.#backWhenTold > 0) this.#giveBack(slot, this.#backWhenTold)
    this.#backWhenTold = 0
    for (const call of this.#open.values()) {
      if (!call.isMoving) continue
      const wasCounted = slot - call.counted <= this.#keptSlots
      Object.assign(call, { isMoving: false, slot, counted: slot, until })
      if (!wasCounted) this.#losePlace(call)
    }
  }

  /**
   * Hears that the question may have been worked, or not. What was to be counted is counted again; what was to be taken
   * back never is: twice would be too much.
   */
  lost(): void {
    this.#late += this.#lateAsked
    this.#backWhenTold = 0
    for (const call of this.#open.values())
      if (call.isMoving) Object.assign(call, { isMoving: false, slot: undefined })
  }

  /**
   * Hears that another server counts now: the calls that have a token of the earlier one have no place any more. The same
   * holds where the state of long windows was lost: the new one is filled with their calls as made by then, so that none of
   * before may be made later; and nothing is given back to it, as it never counted them.
   */
  end(isLost: boolean): void {
    for (const call of this.#open.values()) this.#losePlace(call)
    if (isLost) this.#back = new Map()
  }

  #losePlace(call: OpenCall): void {
    if (call.slot !== undefined && !call.isMoving) this.#giveBack(call.slot, 1)
    Object.assign(call, {
      hasPlace: false,
      isMoving: false,
      slot: undefined,
      until: Number.NEGATIVE_INFINITY,
    })
  }

  #giveBack(slot: number, count: number): void {
    this.#back.set(slot, (this.#back.get(slot) ?? 0) + count)
  }
}
