/** The edge of the store by which people are erased; the store has it among its methods. */
import type { Recipient } from './model.ts'

export interface StoredRecipient extends Recipient {
  /** The recipient was erased and did not come back: nothing but the opt-outs is known. */
  readonly erased?: true
}

export type ErasureResult =
  | { readonly done: true }
  /** These of the recipient have not ended: they are cancelled first, and then it is asked again. */
  | { readonly done: false; readonly open: readonly string[] }

export interface Erasing {
  /**
   * Takes out what is known of a recipient besides their opt-outs, and what jobs still have to do for them. From here on
   * `erasures` names them until `erase` is done.
   */
  beginErasure(tenant: string, recipient: string): Promise<void>
  /**
   * Takes the recipient out of everything on record: rows stay for the counts and are told by `admissions`, under a keyed
   * hash, without addresses, content and details.
   */
  erase(tenant: string, recipient: string): Promise<ErasureResult>
  erasures(): Promise<readonly { readonly tenant: string; readonly recipient: string }[]>
}
