/**
 * Tracks calls that were fired but whose last byte is not yet on the socket (a busy event loop, a connection to be
 * opened). Limits must hold where the provider counts, so a call that is written late is counted again at that
 * instant. While it is not written, it counts as written now whenever another notification is fired that a limit counts
 * with it: one for the same recipient, or of the same author where a limit counts by it. So no window is exceeded,
 * however long calls are delayed and however many are written at once. Where other processes use the same limits, it is
 * counted before it is written, so that a kill leaves no count that is too early (late-count.ts), and a call
 * that was not counted for 250 ms is not written any more: this process was stopped, or the limits were away. Under a
 * window shorter than a third of a second that time is three quarters of the window, and the call is counted anew each
 * third of that time, a quarter of the window.
 */

import type { Notification, Recipient } from '../model.ts'
import type { Clock } from '../ports.ts'
import { uncountedMsMax } from './accounts/counted-lease.ts'
import { permitMs } from './fired-in-time.ts'
import { countBefore, earlyMsMax } from './late-count.ts'

/** A call that is not written yet, or that was written late and is not counted anew yet. */
export interface InFlightSend {
  readonly notification: Notification
  readonly recipient: Recipient | null
  /** The instant at which the limits have counted it. */
  readonly countsAt: number
  /** Counts it as written now if that is later than it counts so far; resolves when it is counted. */
  countLate(now: number): Promise<void> | undefined
  /** Counts it at this instant or later; resolves when it is counted. */
  countAt(at: number): Promise<void>
}

/** Returns the keys under which limits count a notification. */
export type SubjectKeys = (of: Pick<InFlightSend, 'notification' | 'recipient'>) => readonly string[]

export interface InFlightSendsOptions {
  readonly clock: Pick<Clock, 'now' | 'monotonic' | 'at'>
  readonly keysOf: SubjectKeys
  /** Returns the shortest window or distance of a limit, ms. */
  readonly shortestWindowMs: () => number
  /** True if other processes fire in the same limits. */
  readonly isShared: boolean
}

/** The unwritten calls of all channels, by subject: bounded by the accounts' concurrency. */
export class InFlightSends {
  readonly #clock: Pick<Clock, 'now' | 'monotonic' | 'at'>
  readonly #keysOf: SubjectKeys
  readonly #shortestWindowMs: () => number
  readonly #isShared: boolean
  readonly #bySubject = new Map<string, Set<InFlightSend>>()
  /**
   * Instants of `Clock.monotonic` at which calls were found counted last; empty where no other process fires in the same
   * limits. One that was not found so for too long stays so until it is removed.
   */
  readonly #countedAt = new Map<InFlightSend, number>()
  #isArmed = false

  constructor({ clock, keysOf, shortestWindowMs, isShared }: InFlightSendsOptions) {
    this.#clock = clock
    this.#keysOf = keysOf
    this.#shortestWindowMs = shortestWindowMs
    this.#isShared = isShared
  }

  /** A call that was not counted for so long is not written, ms. */
  get #uncountedMs(): number {
    return Math.min(uncountedMsMax, Math.max(permitMs, 0.75 * this.#shortestWindowMs()))
  }

  get isEmpty(): boolean {
    return this.#bySubject.size === 0
  }

  add(inFlightSend: InFlightSend): void {
    if (this.#isShared) {
      if (!this.#countedAt.has(inFlightSend)) this.#countedAt.set(inFlightSend, this.#clock.monotonic())
      this.#arm()
    }
    for (const key of this.#keysOf(inFlightSend)) {
      const others = this.#bySubject.get(key)
      if (others === undefined) this.#bySubject.set(key, new Set([inFlightSend]))
      else others.add(inFlightSend)
    }
  }

  /** Tests if a call may be written now: others that use the same limits have counted with it all the time. */
  mayLeave(inFlightSend: InFlightSend): boolean {
    if (!this.#isShared) return true
    const countedAt = this.#countedAt.get(inFlightSend) ?? Number.NEGATIVE_INFINITY
    if (this.#clock.monotonic() - countedAt > this.#uncountedMs) return false
    return !this.#isLimited(inFlightSend) || this.#clock.now() - inFlightSend.countsAt <= this.#uncountedMs
  }

  /**
   * Has a call counted anew before it is written, and resolves at its instant; to false if that is not possible in time.
   * Undefined where it need not: it counts only a little earlier, or nobody else would use its place if this process were
   * killed after the writing.
   */
  countBefore(inFlightSend: InFlightSend): Promise<boolean> | undefined {
    const now = this.#clock.now()
    if (!this.#isShared || now - inFlightSend.countsAt <= earlyMsMax) return undefined
    return this.#isLimited(inFlightSend)
      ? countBefore(this.#clock, inFlightSend, now + this.#uncountedMs)
      : undefined
  }

  #isLimited(inFlightSend: InFlightSend): boolean {
    return this.#keysOf(inFlightSend).length > 0
  }

  remove(inFlightSend: InFlightSend): void {
    this.#countedAt.delete(inFlightSend)
    for (const key of this.#keysOf(inFlightSend)) {
      const others = this.#bySubject.get(key)
      if (others?.delete(inFlightSend) === true && others.size === 0) this.#bySubject.delete(key)
    }
  }

  /** Counts what is not written for a third of the time for which it may be, as written now, again and again. */
  #arm(): void {
    if (this.#isArmed) return
    this.#isArmed = true
    const recountMs = Math.floor(this.#uncountedMs / 3)
    this.#clock.at(this.#clock.now() + recountMs, () => {
      this.#isArmed = false
      if (this.#countedAt.size === 0) return
      const now = this.#clock.now()
      for (const each of this.#countedAt.keys()) {
        if (!this.mayLeave(each)) this.#countedAt.set(each, Number.NEGATIVE_INFINITY)
        else {
          this.#countedAt.set(each, this.#clock.monotonic())
          if (now - each.countsAt >= recountMs && this.#isLimited(each)) void each.countLate(now)
        }
      }
      this.#arm()
    })
  }

  /** Finds the keys of all unwritten calls anew, because other limits count them now. */
  rekey(): void {
    const all = new Set([...this.#bySubject.values()].flatMap((sends) => [...sends]))
    this.#bySubject.clear()
    for (const inFlightSend of all) this.add(inFlightSend)
  }

  /**
   * Tells if a call of the same subjects counts too early for an answer of `fire` of this instant: it left for its
   * provider while the question was on its way to the limits, so it was not counted as written now before.
   */
  isBehind(fired: Pick<InFlightSend, 'notification' | 'recipient'>, at: number): boolean {
    for (const key of this.#keysOf(fired))
      for (const { countsAt } of this.#bySubject.get(key) ?? []) if (at - countsAt > permitMs) return true
    return false
  }

  /** Counts unwritten calls of the same subjects as written now, before other notifications are fired. */
  async recount(fired: readonly Pick<InFlightSend, 'notification' | 'recipient'>[]): Promise<void> {
    const now = this.#clock.now()
    for (const each of fired)
      for (const key of this.#keysOf(each))
        for (const inFlightSend of this.#bySubject.get(key) ?? []) await inFlightSend.countLate(now)
  }
}
