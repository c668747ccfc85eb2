/** The port that knows which requests with an Idempotency-Key are in progress, in this process or in any of a fleet. */

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
