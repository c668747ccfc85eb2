/**
 * The port by which the processes of a fleet talk while they run: messages, and questions that every other process
 * answers. A message may be lost and none is stored, so the record decides whatever must not be missed.
 */

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
