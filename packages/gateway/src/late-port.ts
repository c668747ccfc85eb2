/**
 * The port by which notifications that become late while a gateway runs are planned again: their subjects' instants in
 * the limiter's state. Instants are epoch milliseconds.
 */
import type { RestoredEntry } from '@sluice/limits'
import type { Subject } from './limit-ports.ts'

/** The entries of subjects, by the keys of these. */
export type KnownEntries = ReadonlyMap<string, readonly RestoredEntry[]>

/** The instants of subjects in the limiter's state. */
export interface SubjectEntries {
  /** Returns the entries of a subject, which is filled from the record where it is not known. */
  read(subject: Subject): Promise<readonly RestoredEntry[]>
  /** Returns those of all of them as they are now, by their keys; without the subjects that are not known. */
  peek(subjects: Iterable<Subject>): KnownEntries | Promise<KnownEntries>
  /**
   * Holds other instants for notifications, without asking the limits; one that stands elsewhere than it was peeked at
   * keeps its instant. Returns the subjects in which notifications wait, paused: `resume` must be called for each of them.
   */
  move(moves: readonly HeldMove[]): readonly Subject[] | Promise<readonly Subject[]>
}

/** A notification that holds another instant from now on. */
export interface HeldMove {
  readonly id: string
  readonly at: number
  readonly subjects: readonly { readonly subject: Subject; readonly streams: readonly string[] }[]
}

/** A subject whose limits refused notifications at their instants. */
export interface LateSubject {
  readonly subject: Subject
  /** The ids that were refused: what they hold is no promise. */
  readonly refused: ReadonlySet<string>
}

/** Plans a subject again. Never rejects: without a plan each keeps what it holds. */
export type PlanLate = (late: LateSubject, entries: SubjectEntries) => Promise<void>
