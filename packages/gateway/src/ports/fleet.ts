/**
 * The ports between the processes of a fleet: which of them are alive, which does a chore for all, how they talk, and who
 * goes on with the notifications of a dead one. A single process has embedded forms of all of them.
 */
import type { Channel, Notification } from '../model.ts'
import type { KeepsLeftToBroker } from './outgoing.ts'

// ---- members and roles
//
// The port that knows the processes of a fleet: which one this is, how many there are, and which does a chore for all.

/**
 * A chore that one process does for all: pruning, the search for orphans, closing digests, accepting batches in the
 * background, deciding what complaints slow and pause, trying waiting feedback again, releasing what those held whose
 * process has gone, writing the delivery log, repairing the queues of a broker, the automatic redrive of a channel, the judging of the accounts of a pool.
 */
export type Role =
  | 'retention'
  | 'orphans'
  | 'digests'
  | 'jobs'
  | 'complaints'
  | 'feedback'
  | 'releases'
  | 'delivery-log'
  | 'outgoing'
  | `redrive:${Channel}`
  | `judge:${string}`

export interface Members {
  /** Names this process: no other process has the same name, and none has had it before. */
  readonly id: string
  /** The number of processes that are alive, this one included: at least 1. A dead one is counted until that is known. */
  count(): number
  /**
   * True where another process that is alive serves the channel, as far as this one knows: the others hear of a process
   * within two beats, and a dead one serves until that is known. One that does not say what it serves may serve any.
   */
  othersServe(channel: Channel): boolean
  /**
   * A mark that is another one whenever a process has left another policy than that of this one: it has ended, or has another
   * policy since. It may have sent what this process did not count. Known within two beats; of a killed process when it is
   * found dead.
   */
  policiesLeft(): string
  /**
   * Puts on record that the policy of this version comes into force. To be awaited before it does: a process that is killed
   * at once, or goes back at once, may have sent under it.
   * @throws SluiceError STORE_UNAVAILABLE where the record is away: the policy is not to be put in force
   */
  announcePolicy(version: string): Promise<void>
  /**
   * True while this process holds the role, for which it applies with the first question. To be asked directly before
   * each piece of the work. For a moment two processes may hold a role, for example while one of them is stopped: the
   * writes of a chore must be such that this does no harm.
   */
  holds(role: Role): boolean
  /**
   * Calls the listener whenever another process was found dead, with its name: what it held can be taken over. It may be
   * told of one death several times, also of a process that has ended in order, and each process is told of it. A death
   * before the start of this one is not told: a start takes over what there is. Those that were never heard alive are named
   * besides: they were killed before this one knew them, and perhaps nobody has outlived them. The returned function ends it.
   */
  onDeath(listener: (gone: readonly string[], unheard?: readonly string[]) => void): () => void
  /** Gives the roles to the other processes; from now on this process holds none. */
  close(): Promise<void>
}

// ---- hints
//
// The port by which the processes of a fleet give each other hints. A hint may be lost, come late or come twice: it only
// makes something happen earlier that happens without it. So nothing waits for a hint, and none is stored.

/**
 * `recipient`: another version is on record, and caches drop theirs. Without the hint a commit or a right to send finds
 * out. `holds`: operators have put or ended a hold, or complaints slow or pause a category, and that is read again.
 * Without the hint it is read every few seconds.
 */
export type Hint =
  | { readonly topic: 'recipient'; readonly tenant: string; readonly recipient: string }
  | { readonly topic: 'holds' }

export interface Notifier {
  /** Tells all other processes. Returns at once and never throws. */
  tell(hint: Hint): void
  /** Calls the listener with the hints of other processes, never with those of its own; the returned function ends it. */
  listen(listener: (hint: Hint) => void): () => void
  /** Hears and tells nothing any more. */
  close(): Promise<void>
}

// ---- messages and questions
//
// The port by which the processes of a fleet talk while they run: messages, and questions that every other process
// answers. A message may be lost and none is stored, so the record decides whatever must not be missed.

/** A value as JSON has it. */
type PeerValue = unknown

export interface PeerAnswers {
  /** The answers by the name of the process. */
  readonly answers: ReadonlyMap<string, PeerValue>
  /** Processes that are not known to be dead and have not answered. */
  readonly silent: readonly string[]
}

interface PeerQuestion {
  /** The process that is asked. @defaultValue all others */
  readonly to?: string
  /** How long answers are waited for, ms. @defaultValue 1_000 */
  readonly withinMs?: number
  /** Ends the wait when an answer says enough. @defaultValue every process is waited for */
  readonly isEnough?: (answer: PeerValue) => boolean
}

export interface Peers {
  /** Sends a message to all other processes, or to one. Returns at once and never throws. */
  tell(topic: string, message: PeerValue, to?: string): void
  /** Calls the listener with the messages of other processes; the returned function ends it. */
  listen(topic: string, listener: (message: PeerValue, from: string) => void): () => void
  /**
   * Asks all other processes, or one. Never rejects. A process that did not answer in time is not waited for again
   * until something is heard of it.
   */
  ask(topic: string, question: PeerValue, options?: PeerQuestion): Promise<PeerAnswers>
  /** Answers the questions of one topic. A promise that rejects leaves the question unanswered. */
  answer(topic: string, answerer: (question: PeerValue, from: string) => PeerValue | Promise<PeerValue>): void
  /** Calls back when messages of the others may have been lost: the connection to them was interrupted. */
  onLost(listener: () => void): void
  /** Forgets processes that have died. */
  noteGone(members: readonly string[]): void
  /** Takes leave of the others; hears and tells nothing any more. */
  close(): Promise<void>
}

// ---- requests in progress
//
// The port that knows which requests with an Idempotency-Key are in progress, in this process or in any of a fleet.

/** The name of a request in progress: equal for its repetitions. */
export interface OnceKey {
  readonly tenant: string
  readonly module: string
  readonly method: string
  readonly path: string
  readonly key: string
}

/**
 * `new`: nobody works on it, and the caller does from now on. `busy`: the same request is in progress, or was when the
 * process that worked on it died; its answer may be on record. `mismatch`: a request with another body is in progress
 * under this key.
 */
type Begun = 'new' | 'busy' | 'mismatch'

/**
 * No method rejects. A fleet may answer `new` to two processes where its state is away: the commit of the store decides.
 */
export interface Once {
  /** Begins a request. Answers at once where no other process is asked: the caller awaits only promises. */
  begin(key: OnceKey, requestHash: string): Begun | Promise<Begun>
  /** Ends a request for which `begin` has answered `new`. */
  end(key: OnceKey): void | Promise<void>
}

// ---- claims
//
// The store's port for notifications that are due; `Store` includes its method.

export interface DueClaims {
  /**
   * Claims notifications that are scheduled, queued or dead and due by `until`, earliest first, at most `limit`,
   * unless a process already holds them. This process holds them until a move changes their dueAt or ends them.
   * Notifications of the tenants in `without` are passed over and come later, round robin over the tenants, once
   * these tenants are no longer excluded. A page may be short, even empty, before `claimedUntil` has reached `until`.
   *
   * Notifications of the channels in `passed` stay free for a process that serves them, and so do those that are rendered
   * with the templates in `missing`, written `<template>/<channel>`, for a process that has these. Embedded: no other process
   * claims, and none are passed.
   */
  claimDue(
    until: number,
    limit: number,
    without?: Iterable<string>,
    passed?: readonly Channel[],
    missing?: readonly string[],
  ): Promise<readonly Notification[]>
}

// ---- templates of the others
//
// The store's port by which processes know which of them has a template; `Store` includes its methods.

/** The templates that a process can render now. */
export interface CarriedTemplates {
  has(template: string, channel: Channel): boolean
  /** Written `<template>/<channel>`. */
  readonly keys: readonly string[]
}

export interface TemplatesOnRecord {
  /** Puts on record which templates this process has now, for channels that it serves. Embedded: absent. */
  tellTemplates?(keys: readonly string[]): Promise<void>
  /**
   * Reads which of these templates another process has that is alive, as far as is known. One that has not told may have any.
   * Embedded: absent.
   */
  templatesOfOthers?(keys: readonly string[]): Promise<readonly string[]>
}

// ---- takeover
//
// The store's port for notifications whose process died, or whose claim was lost on its way back; `Store` includes its
// methods. A process holds what `claimDue` gave it and what it wrote with a dueAt up to its `claimedUntil`.

/** A notification that this process holds now in the place of another one. */
export interface TakenOver {
  readonly notification: Notification
  /**
   * True where the process before may have handed it to a provider. The instant of the takeover is the last of its
   * `suspects`, on record, so it counts in the limits in any case.
   */
  readonly mayHaveLeft: boolean
}

/** The name of a notification that this process holds on record. */
export interface HeldName extends Pick<Notification, 'tenant' | 'id' | 'dueAt'> {
  /** The mark of the right to send that it has had on record for a while; a later right to it has another mark. */
  readonly right?: number
}

export interface Takeover extends KeepsLeftToBroker {
  /**
   * Takes over up to `limit` notifications that dead processes held, earliest due first, but none of the tenants in
   * `without`. From the answer on this process holds them, as if `claimDue` had given them. A right to send that the dead
   * process had is over, and `at` is written as a suspect before the answer. Nothing that a dead process still sends to
   * the store is written. Fewer than `limit` where no more are left.
   *
   * Embedded: gives out what was due when the process before was killed, which the opening of the store has marked.
   *
   * @param at the present instant, epoch ms
   */
  takeOver(at: number, limit: number, without?: Iterable<string>): Promise<readonly TakenOver[]>
  /**
   * Takes notifications over from this process itself: it holds them on record and not in memory, because the answer to
   * a claim, a commit or a begin was lost. Leaves out those that it does not hold on record. Embedded: none, ever.
   */
  takeBack(at: number, names: readonly HeldName[]): Promise<readonly TakenOver[]>
  /**
   * Reads the names of notifications that this process holds on record and that were due by an instant, the earliest due
   * first, after the one that the last page ended with. Embedded: none, because no answer is lost there.
   */
  heldOnRecord(dueBy: number, after: HeldName | null, limit: number): Promise<readonly HeldName[]>
  /**
   * Ends these rights to send on record, which this process has and under which it makes no call: until then the others
   * take the notification for one that is being sent. A later right to the same notification stays. Embedded: nothing.
   */
  endRights(unused: readonly HeldName[]): Promise<void>
  /**
   * Reads notifications that were cancelled, expired or suppressed since an instant, the newest ends first, at most `limit`
   * and fewer where very much has ended. Embedded: absent, for limits in the memory of a process end with it.
   */
  endedSince?(at: number, limit: number): Promise<readonly Notification[]>
}
