/** The store's ports for recipients; `Store` includes their methods. */
import type { Recipient } from '../model.ts'

// ---- reading
//
// The store's port for reading recipients; `Store` includes its methods.

export interface RecipientKey {
  readonly tenant: string
  readonly recipient: string
}

/** The version of a recipient that a decision was based on; 0 where none was on record. */
export interface RecipientVersion extends RecipientKey {
  readonly version: number
}

/** A notification of which a report changes its recipient. */
export interface ReportedOf extends RecipientKey {
  readonly notificationId: string
}

export interface RecipientReads {
  /**
   * True where other processes write recipients too. Then a recipient is read with its `version`; a write applies only
   * while the version that it names is on record (of what an erasure has left, where nobody has saved the recipient since;
   * 0: neither), and gives the row another one; `Change.decidedFor` is compared with what was saved. A store of one
   * process ignores both.
   */
  readonly isVersioned: boolean
  /** Reads one recipient. Rejects with STORE_UNAVAILABLE where the row is damaged. */
  recipient(tenant: string, id: string): Promise<StoredRecipient | undefined>
  /**
   * Reads the recipients of a whole batch, answered in the order of the keys, so that an engine across a network needs
   * one question. A damaged row stands as its error in the place of the recipient, and concerns no other. At most 1,000
   * keys at once.
   */
  recipients(keys: readonly RecipientKey[]): Promise<readonly (StoredRecipient | Error | undefined)[]>
  /**
   * True if a recipient may have preferences or notifications, on record or on their way there. Answered
   * synchronously, so that a new recipient costs no query. `false` is certain: a store of several processes answers
   * true.
   */
  mayHave(what: 'preferences' | 'notifications', tenant: string, recipient: string): boolean
}

// ---- erasure
//
// The store's port for erasing recipients; `Store` includes its methods.

export interface StoredRecipient extends Recipient {
  /**
   * The recipient was erased and has not been saved since: only the opt-outs are known. It is the name under which they stand
   * on record.
   */
  readonly erased?: string
  /**
   * Names what an erasure has left, as `version` names what was saved: it is another one after each erasure. Absent where no
   * other process writes recipients.
   */
  readonly left?: number
}

export type ErasureResult =
  | { readonly done: true }
  /** These notifications of the recipient have not ended: the caller cancels them and asks again. */
  | { readonly done: false; readonly open: readonly string[] }

export interface Erasing {
  /**
   * Removes the recipient's stored data except opt-outs, and the recipient's part of jobs' remaining work. `erasures`
   * lists the recipient from now on until `erase` is done.
   */
  beginErasure(tenant: string, recipient: string): Promise<void>
  /**
   * Removes the recipient from everything that was accepted until the call that finds nothing open, and the open digests
   * without items: rows stay for the counts and are returned by `admissions`, under a keyed hash, without addresses, content
   * and details. It does nothing where the erasure has ended: what is on record then is of a recipient who came back.
   */
  erase(tenant: string, recipient: string): Promise<ErasureResult>
  erasures(): Promise<readonly { readonly tenant: string; readonly recipient: string }[]>
}
