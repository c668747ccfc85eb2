/**
 * Tracks calls that were fired but whose last byte is not yet on the socket (a busy event loop, a connection to be
 * opened). Limits must hold where the provider counts, so a call that is written late is counted again at that
 * instant. While it is not written, it counts as written now whenever another notification is fired that a limit counts
 * with it: one for the same recipient, or of the same author where a limit counts by it. So no window is exceeded,
 * however long calls are delayed and however many are written at once.
 */

import type { Notification, Recipient } from '../model.ts'
import type { Clock } from '../ports.ts'
import { permitMs } from './fired-in-time.ts'

/** A call that is not written yet, or that was written late and is not counted anew yet. */
export interface InFlightSend {
  readonly notification: Notification
  readonly recipient: Recipient | null
  /** The instant at which the limits have counted it. */
  readonly countsAt: number
  /** Counts it as written now if that is later than it counts so far; resolves when it is counted. */
  countLate(now: number): Promise<void> | undefined
}

/** Returns the keys under which limits count a notification. */
export type SubjectKeys = (of: Pick<InFlightSend, 'notification' | 'recipient'>) => readonly string[]

/** The unwritten calls of all channels, by subject: bounded by the accounts' concurrency. */
export class InFlightSends {
  readonly #clock: Pick<Clock, 'now'>
  readonly #keysOf: SubjectKeys
  readonly #bySubject = new Map<string, Set<InFlightSend>>()

  constructor(clock: Pick<Clock, 'now'>, keysOf: SubjectKeys) {
    this.#clock = clock
    this.#keysOf = keysOf
  }

  get isEmpty(): boolean {
    return this.#bySubject.size === 0
  }

  add(inFlightSend: InFlightSend): void {
    for (const key of this.#keysOf(inFlightSend)) {
      const others = this.#bySubject.get(key)
      if (others === undefined) this.#bySubject.set(key, new Set([inFlightSend]))
      else others.add(inFlightSend)
    }
  }

  remove(inFlightSend: InFlightSend): void {
    for (const key of this.#keysOf(inFlightSend)) {
      const others = this.#bySubject.get(key)
      if (others?.delete(inFlightSend) === true && others.size === 0) this.#bySubject.delete(key)
    }
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
