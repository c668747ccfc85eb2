/** The store's port for erasing recipients; `Store` includes its methods. */
import type { Recipient } from './model.ts'

export interface StoredRecipient extends Recipient {
  /** The recipient was erased and has not been saved since: only the opt-outs are known. */
  readonly erased?: true
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
   * Removes the recipient from everything on record: rows stay for the counts and are returned by `admissions`, under
   * a keyed hash, without addresses, content and details.
   */
  erase(tenant: string, recipient: string): Promise<ErasureResult>
  erasures(): Promise<readonly { readonly tenant: string; readonly recipient: string }[]>
}
