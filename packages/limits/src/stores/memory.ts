/**
 * The state of the limiter in this process: a map from subjects to what is known of them. Every question is
 * answered at once, so nothing can come between reading and writing; the promises of the port are for show. What
 * is over is dropped in passing, a few subjects per call, and by a timer where nobody calls any more: see expiry.ts.
 */
import { checkKey, checkOptions } from '../calls.ts'
import type { Decision } from '../decision.ts'
import { isWhole, LimitsError } from '../errors.ts'
import type { Plan } from '../plan.ts'
import { steadyClock } from '../steady-clock.ts'
import type { BlockChange, Question, RestoredEntry, Store, SyncStore, Terms } from '../store.ts'
import { ExpiryQueue } from './expiry.ts'
import { Subject } from './subject.ts'

export interface MemoryStoreOptions {
  /**
   * Epoch milliseconds, 0 or more. It should not step back: what it has counted then looks like reservations, and by
   * more than a window the limit begins anew.
   *
   * @defaultValue Date.now, which goes on from where it was when the machine's clock is set back
   */
  readonly now?: () => number
  /**
   * How long what counted is kept at least, ms; never shorter than the longest window that was asked. Longer lets a
   * window grow later and be right at once, at the price of that memory for each subject.
   *
   * @defaultValue 0: a subject goes when the longest window that it was asked with is over
   */
  readonly retentionMs?: number
}

export interface MemoryStore extends Store {
  readonly sync: SyncStore
  /** How many subjects are known. */
  readonly size: number
}

/** So many subjects that are over a call drops at most: more than it can add, and no more than a few microseconds. */
const dropsPerCall = 8
/** When a subject is looked at of which no window is known yet. */
const unaskedLookMs = 60_000

/** State in this process, exact and bounded; gone when the process ends. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const { now, retentionMs = 0 } = checkOptions(options, 'now', 'retentionMs')
  if (now !== undefined && typeof now !== 'function')
    throw new LimitsError('INVALID_ARGUMENT', 'now is a function that returns epoch milliseconds')
  if (!isWhole(retentionMs, 0)) {
    throw new LimitsError(
      'INVALID_ARGUMENT',
      `retentionMs is a whole number of milliseconds, 0 or more, not ${retentionMs}`,
    )
  }
  const engine = new Engine(now, retentionMs)
  return {
    sync: engine,
    get size() {
      return engine.size
    },
    async decide(questions) {
      return questions.map(({ kind, plan, subject, id, terms }: Question) =>
        engine[kind](plan, subject, id, terms),
      )
    },
    async cancel(places) {
      return places.map(({ subject, id }) => engine.cancel(subject, id))
    },
    async restore(batches) {
      for (const { subject, entries } of batches) engine.restore(subject, entries)
    },
    async block(blocks) {
      return blocks.map(({ subject, ms }) => engine.block(subject, ms))
    },
    async forget(subjects) {
      for (const subject of subjects) engine.forget(subject)
    },
    async has(subjects) {
      return subjects.map((subject) => engine.has(subject))
    },
  }
}

class Engine implements SyncStore {
  readonly #subjects = new Map<string, Subject>()
  readonly #clock: () => number
  readonly #retentionMs: number
  readonly #expiry: ExpiryQueue<Subject>

  constructor(clock: (() => number) | undefined, retentionMs: number) {
    // Looked up in each call: tests put another Date in its place.
    this.#clock = clock ?? steadyClock(() => Date.now())
    this.#retentionMs = retentionMs
    // A clock of one's own does not run on while nobody calls, so that a timer would find nothing.
    this.#expiry = new ExpiryQueue(
      (subject, now) => this.#expire(subject, now),
      (subject) => this.#subjects.get(subject.key) === subject,
      clock === undefined ? this.#clock : undefined,
    )
  }

  get size(): number {
    return this.#subjects.size
  }

  take(plan: Plan, subject: string, id: string | undefined, terms: Terms): Decision {
    const now = this.#now()
    return this.#subject(subject, now, plan.longestMs).take(plan, id, terms, now)
  }

  reserve(plan: Plan, subject: string, id: string | undefined, terms: Terms): Decision {
    const now = this.#now()
    return this.#subject(subject, now, plan.longestMs).reserve(plan, id!, terms, now)
  }

  fire(plan: Plan, subject: string, id: string | undefined, terms: Terms): Decision {
    const now = this.#now()
    return this.#subject(subject, now, plan.longestMs).fire(plan, id!, terms, now)
  }

  force(plan: Plan, subject: string, id: string | undefined, terms: Terms): Decision {
    const now = this.#now()
    return this.#subject(subject, now, plan.longestMs).decide('force', plan, id, terms, now)
  }

  // Questions leave nothing behind, not even an empty subject.

  check(plan: Plan, subject: string, _id: string | undefined, terms: Terms): Decision {
    const known = this.#subjects.get(subject) ?? new Subject(subject)
    return known.check(plan, terms, this.#now())
  }

  preview(plan: Plan, subject: string, id: string | undefined, terms: Terms): Decision {
    const known = this.#subjects.get(subject) ?? new Subject(subject)
    return known.decide('preview', plan, id, terms, this.#now())
  }

  cancel(subject: string, id: string): boolean {
    return this.#subjects.get(subject)?.cancel(id) ?? false
  }

  restore(subject: string, entries: readonly RestoredEntry[]): void {
    const now = this.#now()
    this.#subject(subject, now, 0).restore(entries, now)
  }

  block(subject: string, ms: number): BlockChange {
    const now = this.#now()
    return this.#subject(subject, now, 0).block(ms, now)
  }

  forget(subject: string): void {
    if (this.#subjects.delete(subject)) this.#expiry.left()
  }

  has(subject: string): boolean {
    const known = this.#subjects.get(subject)
    if (known === undefined) return false
    if (known.expire(this.#now(), this.#retentionMs) !== undefined) return true
    this.forget(subject)
    return false
  }

  #now(): number {
    const now = this.#clock()
    // Whole as it nearly always is: rounding would be one more number to allocate in each call.
    if (Number.isInteger(now) && now >= 0) return now
    if (now >= 0 && now < Number.POSITIVE_INFINITY) return Math.floor(now)
    throw new LimitsError('INVALID_CLOCK', `now() gave ${now}; epoch milliseconds, 0 or more, are needed`)
  }

  #subject(key: string, now: number, longestMs: number): Subject {
    if (now >= this.#expiry.nextMs) this.#expiry.sweep(now, dropsPerCall)
    const known = this.#subjects.get(key)
    if (known !== undefined) return known
    checkKey('subject', key)
    const subject = new Subject(key)
    this.#subjects.set(key, subject)
    // What comes without a plan is looked at soon, when its windows are known.
    const keptMs = longestMs > this.#retentionMs ? longestMs : this.#retentionMs
    this.#expiry.add(subject, now, now + (longestMs > 0 ? keptMs : unaskedLookMs))
    return subject
  }

  /** Drops what is over of a subject; answers when to look again, or undefined where nothing is left. */
  #expire(subject: Subject, now: number): number | undefined {
    const next = subject.expire(now, this.#retentionMs)
    if (next === undefined) this.#subjects.delete(subject.key)
    return next
  }
}
