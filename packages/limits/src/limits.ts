/**
 * The limiter's door: checks what comes in, finds the compiled form of the limits, and hands the question to the
 * store. Everything that decides lives behind the store's port; everything that is wrong is refused here, with the
 * reason, before anything is counted.
 */
import {
  type AnyOptions,
  type Call,
  type CheckOptions,
  checkBlock,
  checkEntries,
  checkKey,
  checkList,
  checkOptions,
  type FireCall,
  type FireOptions,
  type PreviewCall,
  type PreviewOptions,
  type ReserveCall,
  type ReserveOptions,
  type TakeCall,
  type TakeOptions,
  termsOf,
} from './calls.ts'
import type { Decision } from './decision.ts'
import { LimitsError } from './errors.ts'
import type { Limit } from './limit.ts'
import { createPlanner, type Plan } from './plan.ts'
import type { Kind, Question, RestoredEntry, Store, SyncStore } from './store.ts'
import { type MemoryStore, memoryStore } from './stores/memory.ts'

export interface LimitsOptions<S extends Store = Store> {
  /**
   * Where the state lives.
   *
   * @defaultValue `memoryStore()`
   */
  readonly store?: S
  /**
   * Every window W is kept as W + marginMs, ms: departures bunch on their way to whoever else counts them. What
   * decisions report as the window stays as it was written.
   *
   * @defaultValue 0
   */
  readonly marginMs?: number
}

/**
 * Exact limits over rolling windows, all or nothing. Every method rejects with a LimitsError: `INVALID_ARGUMENT` or
 * `INVALID_RULES` for what was passed, `STORE_UNAVAILABLE` for a store that did not answer. No rules admit everything.
 */
export interface Limits {
  /** Counts now if every rule admits; a refused call takes nothing, except where a limit says `countRefused`. */
  take(subject: string, rules: readonly Limit[], options?: TakeOptions): Promise<Decision>
  /** What `take` would say now; counts nothing. */
  check(subject: string, rules: readonly Limit[], options?: CheckOptions): Promise<Decision>
  /** Books the earliest instant that every rule and every forbidden interval admits. */
  reserve(subject: string, rules: readonly Limit[], options: ReserveOptions): Promise<Decision>
  /** What `reserve` would say; books nothing. */
  preview(subject: string, rules: readonly Limit[], options?: PreviewOptions): Promise<Decision>
  /**
   * At release: tests the id against what has gone already. Admitted, it counts as gone now; else it is booked anew
   * for `at`. Bookings of others do not block it. An unknown id is tested as a new one; one that has gone already is
   * taken out and tested again, and counts once, now: its decision says `moved`. What really leaves twice counts twice
   * under two ids: `force(subject, 'id#2', rules)` for the repetition.
   */
  fire(subject: string, id: string, rules: readonly Limit[], options?: FireOptions): Promise<Decision>
  /**
   * Counts now without asking; whoever comes later is limited by it. An id that is known moves to now, and where it
   * had counted the decision says `moved`: a repetition that shall count besides the first needs an id of its own.
   */
  force(subject: string, id: string, rules: readonly Limit[], options?: CheckOptions): Promise<Decision>
  /** Gives a place back, gone or booked. Answers whether there was one. */
  cancel(subject: string, id: string): Promise<boolean>
  takeMany(calls: readonly TakeCall[]): Promise<readonly Decision[]>
  reserveMany(calls: readonly ReserveCall[]): Promise<readonly Decision[]>
  previewMany(calls: readonly PreviewCall[]): Promise<readonly Decision[]>
  fireMany(calls: readonly FireCall[]): Promise<readonly Decision[]>
  cancelMany(
    places: readonly { readonly subject: string; readonly id: string }[],
  ): Promise<readonly boolean[]>
  /** Inserts what is on record elsewhere; ids that are known stay as they are. */
  restore(subject: string, entries: readonly RestoredEntry[]): Promise<void>
  /**
   * How many may go now, one after the other: the least that any window admits, what is booked in it respected, and 0
   * while the subject is blocked.
   * Infinity where no rule limits.
   */
  remaining(subject: string, rules: readonly Limit[]): Promise<number>
  /**
   * Lets nothing of the subject go for `ms` milliseconds, whatever its limits say, as a provider's Retry-After or
   * a ban asks: decisions carry `blockedUntil`, reservations go behind it, `force` alone passes. It replaces a block
   * that stands. Answers when it ends, epoch ms.
   */
  block(subject: string, ms: number): Promise<number>
  /** Lifts the block. Answers whether one stood. */
  unblock(subject: string): Promise<boolean>
  /** Begins a subject anew: what it counted, what it booked, its block. The same as `forget`. */
  reset(subject: string): Promise<void>
  /** Drops everything about a subject. */
  forget(subject: string): Promise<void>
  /** Whether anything is known about a subject. */
  has(subject: string): Promise<boolean>
}

/** The same without promises, where the state lives in this process. */
export interface SyncLimits {
  take(subject: string, rules: readonly Limit[], options?: TakeOptions): Decision
  check(subject: string, rules: readonly Limit[], options?: CheckOptions): Decision
  reserve(subject: string, rules: readonly Limit[], options: ReserveOptions): Decision
  preview(subject: string, rules: readonly Limit[], options?: PreviewOptions): Decision
  fire(subject: string, id: string, rules: readonly Limit[], options?: FireOptions): Decision
  force(subject: string, id: string, rules: readonly Limit[], options?: CheckOptions): Decision
  cancel(subject: string, id: string): boolean
  restore(subject: string, entries: readonly RestoredEntry[]): void
  remaining(subject: string, rules: readonly Limit[]): number
  block(subject: string, ms: number): number
  unblock(subject: string): boolean
  reset(subject: string): void
  forget(subject: string): void
  has(subject: string): boolean
}

export interface MemoryLimits extends Limits {
  readonly sync: SyncLimits
}

type PlanOf = (limits: readonly Limit[]) => Plan

/** Limits over state in this process; `sync` is the door without promises. */
export function createLimits(options?: LimitsOptions<MemoryStore>): MemoryLimits
/** Limits over a store. @throws LimitsError `INVALID_ARGUMENT` for options that make no sense */
export function createLimits(options: LimitsOptions): Limits
export function createLimits(options: LimitsOptions = {}): Limits {
  const { store = memoryStore(), marginMs = 0 } = checkOptions(options, 'store', 'marginMs')
  // A client without `redisStore` around it is the mistake of a first try.
  if (typeof store?.decide !== 'function')
    throw new LimitsError('INVALID_ARGUMENT', 'store is what memoryStore() or redisStore(client) gives')
  const planOf = createPlanner(marginMs)
  const limits = overStore(store, planOf)
  return store.sync === undefined ? limits : inProcess(limits, store.sync, planOf)
}

/** Methods are async, so that what is refused here rejects and does not throw. */
function overStore(store: Store, planOf: PlanOf): Limits {
  const question = (kind: Kind, { subject, rules, id, ...options }: Call & AnyOptions): Question => {
    checkCall(kind, subject, id)
    return { kind, subject, plan: planOf(rules), id, terms: termsOf(kind, options) }
  }
  const ask = async (kind: Kind, call: Call & AnyOptions): Promise<Decision> =>
    (await store.decide([question(kind, call)]))[0]!
  const askMany = async (kind: Kind, calls: readonly (Call & AnyOptions)[]): Promise<readonly Decision[]> =>
    store.decide(checkList('calls', calls).map((call) => question(kind, call)))
  const place = <P extends { readonly subject: string; readonly id: string }>(at: P): P => {
    checkKey('subject', at.subject)
    checkKey('id', at.id)
    return at
  }
  const forget = async (subject: string): Promise<void> => {
    checkKey('subject', subject)
    await store.forget([subject])
  }
  return {
    take: (subject, rules, options) => ask('take', { ...options, subject, rules }),
    check: (subject, rules, options) => ask('check', { ...options, subject, rules }),
    reserve: (subject, rules, options) => ask('reserve', { ...options, subject, rules }),
    preview: (subject, rules, options) => ask('preview', { ...options, subject, rules }),
    fire: (subject, id, rules, options) => ask('fire', { ...options, subject, id, rules }),
    force: (subject, id, rules, options) => ask('force', { ...options, subject, id, rules }),
    takeMany: (calls) => askMany('take', calls),
    reserveMany: (calls) => askMany('reserve', calls),
    previewMany: (calls) => askMany('preview', calls),
    fireMany: (calls) => askMany('fire', calls),
    cancel: async (subject, id) => (await store.cancel([place({ subject, id })]))[0]!,
    cancelMany: async (places) => store.cancel(checkList('places', places).map(place)),
    async restore(subject, entries) {
      checkKey('subject', subject)
      await store.restore([{ subject, entries: checkEntries(entries) }])
    },
    remaining: async (subject, rules) => remainingOf(await ask('check', { subject, rules }), rules),
    async block(subject, ms) {
      checkKey('subject', subject)
      return (await store.block([{ subject, ms: checkBlock(ms) }]))[0]!.until
    },
    async unblock(subject) {
      checkKey('subject', subject)
      return (await store.block([{ subject, ms: 0 }]))[0]!.stood
    },
    reset: forget,
    forget,
    async has(subject) {
      checkKey('subject', subject)
      return (await store.has([subject]))[0]!
    },
  }
}

/** Adds the synchronous door, and leads single calls through it: a promise costs less than an array of questions. */
function inProcess(limits: Limits, store: SyncStore, planOf: PlanOf): MemoryLimits {
  const ask = (
    kind: Kind,
    subject: string,
    id: string | undefined,
    rules: readonly Limit[],
    options: AnyOptions | undefined,
  ): Decision => {
    checkCall(kind, subject, id)
    return store[kind](planOf(rules), subject, id, termsOf(kind, options))
  }
  const forget = (subject: string): void => {
    checkKey('subject', subject)
    store.forget(subject)
  }
  const sync: SyncLimits = {
    take(subject, rules, options) {
      const id = options?.id
      if (id !== undefined) checkKey('id', id)
      return store.take(planOf(rules), subject, id, termsOf('take', options))
    },
    reserve(subject, rules, options) {
      checkCall('reserve', subject, options?.id)
      return store.reserve(planOf(rules), subject, options.id, termsOf('reserve', options))
    },
    fire(subject, id, rules, options) {
      checkCall('fire', subject, id)
      return store.fire(planOf(rules), subject, id, termsOf('fire', options))
    },
    check: (subject, rules, options) => ask('check', subject, undefined, rules, options),
    preview: (subject, rules, options) => ask('preview', subject, options?.id, rules, options),
    force: (subject, id, rules, options) => ask('force', subject, id, rules, options),
    cancel(subject, id) {
      checkKey('subject', subject)
      checkKey('id', id)
      return store.cancel(subject, id)
    },
    restore(subject, entries) {
      checkKey('subject', subject)
      store.restore(subject, checkEntries(entries))
    },
    remaining: (subject, rules) => remainingOf(ask('check', subject, undefined, rules, undefined), rules),
    block(subject, ms) {
      checkKey('subject', subject)
      return store.block(subject, checkBlock(ms)).until
    },
    unblock(subject) {
      checkKey('subject', subject)
      return store.block(subject, 0).stood
    },
    reset: forget,
    forget,
    has(subject) {
      checkKey('subject', subject)
      return store.has(subject)
    },
  }
  return {
    ...limits,
    take: async (subject, rules, options) => sync.take(subject, rules, options),
    check: async (subject, rules, options) => sync.check(subject, rules, options),
    reserve: async (subject, rules, options) => sync.reserve(subject, rules, options),
    preview: async (subject, rules, options) => sync.preview(subject, rules, options),
    fire: async (subject, id, rules, options) => sync.fire(subject, id, rules, options),
    force: async (subject, id, rules, options) => sync.force(subject, id, rules, options),
    sync,
  }
}

/** What limits that only count have left says nothing about who may go. */
function remainingOf(decision: Decision, rules: readonly Limit[]): number {
  if (!decision.allowed) return 0
  const counting = new Set(rules.filter(({ over }) => over === 'count').map(({ name }) => name))
  const left = decision.rules.filter(({ limit }) => !counting.has(limit)).map(({ available }) => available)
  return Math.min(Number.POSITIVE_INFINITY, ...left)
}

function checkCall(kind: Kind, subject: string, id: string | undefined): void {
  checkKey('subject', subject)
  if (id !== undefined || kind === 'reserve' || kind === 'fire' || kind === 'force') checkKey('id', id!)
}
