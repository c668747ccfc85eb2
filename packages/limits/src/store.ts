/**
 * The port behind which the state of the limiter lives. A store keeps, under one key per subject, a sorted log of
 * instants per stream and what is known by id; it supplies the time; and it does each question as a whole, so that
 * two questions about one subject never see each other half done. Everything that crosses the port is plain data,
 * and every call takes many, so that a store across a network needs one round trip.
 *
 * What the questions mean is told by the model of `@sluice/limits-conformance`, the slow and literal store, and held by exerciseStore.
 */
import type { Decision } from './decision.ts'
import { type ForbiddenInterval, nothingForbidden } from './forbidden.ts'
import type { Plan } from './plan.ts'

/**
 * - `take`: counts now if everything admits. An id that counts already is answered from what it holds; one that is
 *   only booked gives its booking up for the count, if it is admitted.
 * - `check`: what `take` would say; changes nothing.
 * - `force`: counts now without asking; an id that is known moves to now.
 * - `reserve`: books the earliest instant; a known id is answered from what it holds.
 * - `preview`: what `reserve` would say; changes nothing.
 * - `fire`: takes the id's own entry out and tests against what counts already, bookings aside: counted now, or
 *   booked anew.
 */
export const kinds = ['take', 'check', 'force', 'reserve', 'preview', 'fire'] as const
export type Kind = (typeof kinds)[number]

/** The options of a call with their defaults filled in. */
export interface Terms {
  /** The number that is counted at once, 1 or more. */
  readonly weight: number
  /** Epoch milliseconds; 0 where none is given. */
  readonly notBefore: number
  readonly forbidden: readonly ForbiddenInterval[]
  /** An instant may lie so far after max(now, notBefore), ms, and still be held. Infinity where none is given. */
  readonly horizonMs: number
  readonly priority: Priority
  /** A booking that counts at its instant by itself, without a `fire`. */
  readonly firm: boolean
}

export const priorities = ['high', 'normal', 'low'] as const
export type Priority = (typeof priorities)[number]

export const plainTerms: Terms = /* @__PURE__ */ Object.freeze({
  weight: 1,
  notBefore: 0,
  forbidden: nothingForbidden,
  horizonMs: Number.POSITIVE_INFINITY,
  priority: 'normal',
  firm: false,
})

export interface Question {
  readonly kind: Kind
  readonly subject: string
  readonly plan: Plan
  /** Always there for `reserve` and `fire`. */
  readonly id: string | undefined
  readonly terms: Terms
}

/** An admission on record somewhere else, from which lost state is rebuilt. */
export interface RestoredEntry {
  readonly id: string
  /** Epoch milliseconds. */
  readonly at: number
  /** True where it counts as gone, rather than being booked. */
  readonly fired: boolean
  readonly streams: readonly string[]
  /** @defaultValue 1 */
  readonly weight?: number
}

/** A block before and after a change. */
export interface BlockChange {
  /** True where the subject was blocked at this instant. */
  readonly stood: boolean
  /** The end of the new block, epoch ms; now where it was lifted. */
  readonly until: number
}

/** The id under which a subject keeps its block: no caller may have an empty one. */
export const blockId = ''

/** Decides questions. */
export interface DecideMany {
  (questions: readonly Question[]): Promise<readonly Decision[]>
  /**
   * The same for one question, without lists and the promises around them; it may throw what it refuses. It belongs to
   * the function and not to the store: a store that wraps another with a `decide` of its own is asked everything.
   *
   * @defaultValue the function itself with a list of one
   */
  readonly one?: (question: Question) => Promise<Decision>
}

export interface Store {
  /** In the order of the questions; those of one subject see each other's effects in that order. */
  readonly decide: DecideMany
  /** Takes ids out of all streams of their subjects. Answers whether there was anything to take out. */
  cancel(places: readonly { readonly subject: string; readonly id: string }[]): Promise<readonly boolean[]>
  /** Inserts the entries whose ids are unknown; known ones stay as they are. */
  restore(
    batches: readonly { readonly subject: string; readonly entries: readonly RestoredEntry[] }[],
  ): Promise<void>
  /** Lets nothing of the subjects go for so long from now; 0 lifts what stands. The last word counts. */
  block(blocks: readonly { readonly subject: string; readonly ms: number }[]): Promise<readonly BlockChange[]>
  /** Drops everything about the subjects. */
  forget(subjects: readonly string[]): Promise<void>
  /** Answers for each subject whether anything is known about it. */
  has(subjects: readonly string[]): Promise<readonly boolean[]>
  /** The same without promises, of a store whose state lives in this process. */
  readonly sync?: SyncStore
}

/** One call of the store in this process: the decision at once. */
export type Decide = (plan: Plan, subject: string, id: string | undefined, terms: Terms) => Decision

/**
 * A store in this process answers at once. Positional, because an object per call costs as much as a decision. The
 * subject of `take` was looked at by nobody: the store refuses one that it does not know and that is no key, since
 * those that it knows are keys, and asking each for its form was a tenth of the call.
 */
export interface SyncStore extends Readonly<Record<Kind, Decide>> {
  cancel(subject: string, id: string): boolean
  restore(subject: string, entries: readonly RestoredEntry[]): void
  /** Answers the state of a subject for `entriesOf`, and leaves nothing behind of one that is unknown. */
  peek(subject: string): object
  block(subject: string, ms: number): BlockChange
  forget(subject: string): void
  has(subject: string): boolean
}

/**
 * How a store retains, per stream: everything that is booked, and of what counted the newest
 * max(128, 2 × the largest N ever asked), for the longest window that was ever asked and for `retentionMs` at least.
 * A subject goes when nothing of it is retained, two windows after its last call at the latest.
 */
export const retainedMin = 128
/** A weight above this is kept as a run; up to it units are cheaper, as they are found without looking. */
export const unitsMax = 4
/** Bookings that nobody came for, and history of which no window was ever asked, are kept this long, ms. */
export const unclaimedMs = 31 * 86_400_000
/** An id that no rule counted, and a block that is over, are known this long, ms. */
export const unboundMs = 86_400_000
