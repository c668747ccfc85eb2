/**
 * The state of the limiter in this process: a map from subjects to what is known of them. Every question is
 * answered at once, so nothing can come between reading and writing; the promises of the port are for show. What
 * is over is dropped in passing, a few subjects per call: no timer runs and no sweep stalls.
 */
import { checkOptions } from '../calls.ts'
import type { Decision } from '../decision.ts'
import { LimitsError } from '../errors.ts'
import type { Plan } from '../plan.ts'
import {
  type BlockChange,
  type Question,
  type RestoredEntry,
  retentionMsDefault,
  type Store,
  type SyncStore,
  type Terms,
} from '../store.ts'
import { Subject } from './subject.ts'

export interface MemoryStoreOptions {
  /**
   * Epoch milliseconds, 0 or more. It may step back: what it has counted then looks like reservations, which is safe.
   *
   * @defaultValue Date.now
   */
  readonly now?: () => number
  /**
   * How long what counted is kept at least, ms; never shorter than the longest window that was asked. Shorter saves
   * memory where subjects are many and short-lived, and then a window that grows begins with less history.
   *
   * @defaultValue 31 days
   */
  readonly retentionMs?: number
}

export interface MemoryStore extends Store {
  readonly sync: SyncStore
  /** How many subjects are known. */
  readonly size: number
}

/** Bookings that nobody came for are dropped when they are overdue by this much. */
const overdueMs = retentionMsDefault
/** A look at two subjects for each new one, and at one in so many calls, keeps the dead below the living. */
const looksPerSubject = 2
const callsPerLook = 64

/** State in this process, exact and bounded; gone when the process ends. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const { now = Date.now, retentionMs = retentionMsDefault } = checkOptions(options, 'now', 'retentionMs')
  if (typeof now !== 'function')
    throw new LimitsError('INVALID_ARGUMENT', 'now is a function that returns epoch milliseconds')
  if (!Number.isInteger(retentionMs) || retentionMs < 0) {
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
  #walk: Iterator<[string, Subject]>
  #calls = 0

  constructor(clock: () => number, retentionMs: number) {
    this.#clock = clock
    this.#retentionMs = retentionMs
    this.#walk = this.#subjects.entries()
  }

  get size(): number {
    return this.#subjects.size
  }

  take(plan: Plan, subject: string, id: string | undefined, terms: Terms): Decision {
    const now = this.#now()
    return this.#subject(subject, now).take(plan, id, terms, now)
  }

  reserve(plan: Plan, subject: string, id: string | undefined, terms: Terms): Decision {
    const now = this.#now()
    return this.#subject(subject, now).reserve(plan, id!, terms, now)
  }

  fire(plan: Plan, subject: string, id: string | undefined, terms: Terms): Decision {
    const now = this.#now()
    return this.#subject(subject, now).fire(plan, id!, terms, now)
  }

  force(plan: Plan, subject: string, id: string | undefined, terms: Terms): Decision {
    const now = this.#now()
    return this.#subject(subject, now).decide('force', plan, id, terms, now)
  }

  // Questions leave nothing behind, not even an empty subject.

  check(plan: Plan, subject: string, _id: string | undefined, terms: Terms): Decision {
    const known = this.#subjects.get(subject) ?? new Subject()
    return known.check(plan, terms, this.#now())
  }

  preview(plan: Plan, subject: string, id: string | undefined, terms: Terms): Decision {
    const known = this.#subjects.get(subject) ?? new Subject()
    return known.decide('preview', plan, id, terms, this.#now())
  }

  cancel(subject: string, id: string): boolean {
    return this.#subjects.get(subject)?.cancel(id) ?? false
  }

  restore(subject: string, entries: readonly RestoredEntry[]): void {
    const now = this.#now()
    this.#subject(subject, now).restore(entries, now)
  }

  block(subject: string, ms: number): BlockChange {
    const now = this.#now()
    return this.#subject(subject, now).block(ms, now)
  }

  forget(subject: string): void {
    this.#subjects.delete(subject)
  }

  has(subject: string): boolean {
    return this.#subjects.get(subject)?.isEmpty === false
  }

  #now(): number {
    const now = this.#clock()
    // Whole as it nearly always is: rounding would be one more number to allocate in each call.
    if (Number.isInteger(now) && now >= 0) return now
    if (now >= 0 && now < Number.POSITIVE_INFINITY) return Math.floor(now)
    throw new LimitsError('INVALID_CLOCK', `now() gave ${now}; epoch milliseconds, 0 or more, are needed`)
  }

  #subject(key: string, now: number): Subject {
    this.#calls += 1
    if (this.#calls >= callsPerLook) {
      this.#calls = 0
      this.#look(now)
    }
    const known = this.#subjects.get(key)
    if (known !== undefined) return known
    for (let look = 0; look < looksPerSubject; look += 1) this.#look(now)
    const subject = new Subject()
    this.#subjects.set(key, subject)
    return subject
  }

  /** Goes one subject further on an endless walk over all of them, and drops it when it is over. */
  #look(now: number): void {
    const step = this.#walk.next()
    if (step.done === true) this.#walk = this.#subjects.entries()
    else if (step.value[1].expire(now, this.#retentionMs, overdueMs)) this.#subjects.delete(step.value[0])
  }
}
