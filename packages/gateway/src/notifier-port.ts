/**
 * The port by which the processes of a fleet give each other hints. A hint may be lost, come late or come twice: it only
 * makes something happen earlier that happens without it. So nothing waits for a hint, and none is stored.
 */

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
