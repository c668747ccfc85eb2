/**
 * The limiter: validates calls, finds the compiled form of the limits, and hands the question to the store. The store
 * decides; invalid arguments are refused here, with the reason, before anything is counted.
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
import {
  type BlockChange,
  type Kind,
  kinds,
  type Question,
  type RestoredEntry,
  type Store,
  type SyncStore,
  type Terms,
} from './store.ts'
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
  /** Answers as `take` would now; counts nothing. */
  check(subject: string, rules: readonly Limit[], options?: CheckOptions): Promise<Decision>
  /** Books the earliest instant that every rule and every forbidden interval admits. */
  reserve(subject: string, rules: readonly Limit[], options: ReserveOptions): Promise<Decision>
  /** Answers as `reserve` would; books nothing. */
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
  /** Answers whether anything is known about a subject. */
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
  const { sync } = store
  const many = async (kind: Kind, calls: readonly (Call & AnyOptions)[]): Promise<readonly Decision[]> =>
    store.decide(
      checkList('calls', calls).map(({ subject, rules, id, ...options }) => {
        checkCall(kind, subject, id)
        return { kind, subject, plan: planOf(rules), id, terms: termsOf(kind, options) }
      }),
    )
  const door = doorOf(sync ?? oneByOne(store), planOf, sync === undefined ? later : atOnce)
  const limits: Limits = {
    ...rejecting(door),
    takeMany: (calls) => many('take', calls),
    reserveMany: (calls) => many('reserve', calls),
    previewMany: (calls) => many('preview', calls),
    fireMany: (calls) => many('fire', calls),
    cancelMany: async (places) => {
      for (const { subject, id } of checkList('places', places)) checkCall('fire', subject, id)
      return store.cancel(places)
    },
  }
  return sync === undefined ? limits : ({ ...limits, sync: door } as MemoryLimits)
}

type PlanOf = (limits: readonly Limit[]) => Plan
/** Goes on with an answer. */
type Then = <T, R>(answer: T, read: (answer: T) => R) => R

const atOnce: Then = (answer, read) => read(answer)
const later = (async (answer, read) => read(await answer)) as Then

/**
 * A store that takes many, asked for one. It is typed as one in this process, so that both have one door, and answers
 * with promises; so `then` of that door is `later`.
 */
function oneByOne(store: Store): SyncStore {
  const first = async <T>(answers: Promise<readonly T[]>): Promise<T> => (await answers)[0]!
  const one = store.decide.one ?? ((asked: Question) => first(store.decide([asked])))
  const decide = kinds.map((kind) => [
    kind,
    (plan: Plan, subject: string, id: string | undefined, terms: Terms) => {
      checkKey('subject', subject)
      return one({ kind, subject, plan, id, terms })
    },
  ])
  return {
    ...Object.fromEntries(decide),
    cancel: (subject: string, id: string) => first(store.cancel([{ subject, id }])),
    restore: (subject: string, entries: readonly RestoredEntry[]) => store.restore([{ subject, entries }]),
    block: (subject: string, ms: number) => first(store.block([{ subject, ms }])),
    forget: (subject: string) => store.forget([subject]),
    has: (subject: string) => first(store.has([subject])),
  } as unknown as SyncStore
}

function doorOf(store: SyncStore, planOf: PlanOf, then: Then): SyncLimits {
  const ask = (
    kind: Kind,
    subject: string,
    id: string | undefined,
    rules: readonly Limit[],
    options?: AnyOptions,
  ): Decision => {
    checkCall(kind, subject, id)
    return store[kind](planOf(rules), subject, id, termsOf(kind, options))
  }
  const block = (subject: string, ms: number): BlockChange => {
    checkKey('subject', subject)
    return store.block(subject, ms)
  }
  const forget = (subject: string): ReturnType<SyncStore['forget']> => {
    checkKey('subject', subject)
    return store.forget(subject)
  }
  return {
    take(subject, rules, options) {
      const id = options?.id
      if (id !== undefined) checkKey('id', id)
      return store.take(planOf(rules), subject, id, termsOf('take', options))
    },
    check: (subject, rules, options) => ask('check', subject, undefined, rules, options),
    reserve: (subject, rules, options) => ask('reserve', subject, options?.id, rules, options),
    preview: (subject, rules, options) => ask('preview', subject, options?.id, rules, options),
    fire: (subject, id, rules, options) => ask('fire', subject, id, rules, options),
    force: (subject, id, rules, options) => ask('force', subject, id, rules, options),
    cancel(subject, id) {
      checkCall('fire', subject, id)
      return store.cancel(subject, id)
    },
    restore(subject, entries) {
      checkKey('subject', subject)
      return store.restore(subject, checkEntries(entries))
    },
    remaining: (subject, rules) =>
      then(ask('check', subject, undefined, rules), (decision) => remainingOf(decision, rules)),
    block: (subject, ms) => then(block(subject, checkBlock(ms)), ({ until }) => until),
    unblock: (subject) => then(block(subject, 0), ({ stood }) => stood),
    reset: forget,
    forget,
    has(subject) {
      checkKey('subject', subject)
      return store.has(subject)
    },
  }
}

/** The same with promises: what is refused here rejects and does not throw. */
function rejecting(door: SyncLimits): Omit<Limits, `${string}Many`> {
  const methods = Object.entries(door) as [string, (...args: unknown[]) => unknown][]
  const { take } = door
  return {
    ...Object.fromEntries(methods.map(([name, ask]) => [name, async (...args: unknown[]) => ask(...args)])),
    // A call without a list of arguments, because it is the one that is made millions of times.
    take: async (subject, rules, options) => take(subject, rules, options),
  } as Limits
}

/** Takes the least that is left; limits that only count refuse nothing and are passed over. */
function remainingOf(decision: Decision, rules: readonly Limit[]): number {
  if (!decision.allowed) return 0
  const left = decision.rules.filter(({ limit }) =>
    rules.some(({ name, over }) => name === limit && over !== 'count'),
  )
  return Math.min(Infinity, ...left.map(({ available }) => available))
}

function checkCall(kind: Kind, subject: string, id: string | undefined): void {
  checkKey('subject', subject)
  if (id !== undefined || kind === 'reserve' || kind === 'fire' || kind === 'force') checkKey('id', id!)
}
