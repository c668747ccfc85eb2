/**
 * The port to the state of one account of a provider: the tokens by which it may be called, the verdicts that keep it out
 * (the block of a 429, a circuit breaker, a hold), and what operators read of it. A pool asks it on the way of each call,
 * so every method answers at once, from what this process has in hand:
 *
 * - Embedded: all calls are made here, so the windows of the rate, the calls under way and the verdicts are exact here.
 * - A state that several processes share takes tokens ahead, for a slot of some milliseconds, and has none until they
 *   came: then `freeAt` is undefined, and its listener hears of the tokens. What `judge` hears goes to the process that
 *   judges the pool, and the listener hears its verdicts, at the latest with the next tokens.
 *
 * Guarantees, for all processes together: no window of the rate has more calls than its maximum, counted from `take` or
 * from the moment at which a call was written if that was later; calls under way never exceed the concurrency; a broken
 * account has one probe under way; a blocked or held one is not called, but for tokens taken before the verdict, whose
 * slot ends soon after. No method throws or waits: where the shared state does not answer there are no tokens.
 *
 * Instants are epoch milliseconds.
 */
import type { AccountDetails, AccountPast, AccountReport } from '../reports.ts'
import type { Account, AccountRecord, SendResult } from './providers.ts'

/** A Retry-After as it was understood. */
export interface RetryAfter {
  readonly ms: number
  /** Reason for which the value differs from what the provider sent. */
  readonly note?: 'missing' | 'invalid' | 'clamped'
}

/** A verdict on an account, or another number of concurrent calls. */
export type AccountChange =
  | { readonly kind: 'blocked'; readonly until: number; readonly retryAfter: RetryAfter }
  | { readonly kind: 'opened'; readonly until: number }
  | { readonly kind: 'closed' }
  | { readonly kind: 'resized'; readonly concurrency: number }

/** A call with a token. */
export interface CountedCall {
  /** The instant at which it counts in the rate. */
  takenAt: number
  /** The instant at which it was written; undefined until the provider reports it. */
  leftAt: number | undefined
}

/** Hears of what is known later than a question. */
export interface AccountListener {
  /** Tokens came, or may be had earlier than `freeAt` has answered. */
  tokens(): void
  /** Verdicts that were not made within `judge`. */
  verdicts(now: number, changes: readonly AccountChange[]): void
}

export interface AccountState {
  readonly account: Account
  /** Calls per second in its narrowest window; undefined where it has no limit. */
  readonly ratePerSecond: number | undefined
  /** Calls of this process that are under way, with those that have a token and are not made yet. */
  readonly inFlight: number
  /** The most calls that may be under way at once. */
  readonly concurrency: number

  // ---- tokens

  /**
   * Returns the instant at which a call may be made with what is in hand: now or earlier where a token is. Undefined while
   * only the end of a call or news can give one.
   *
   * @param kept the share of its places that this call may not use
   * @param shared true if calls keep a distance, because several tenants wait for places
   */
  freeAt(now: number, kept: number, shared: boolean): number | undefined
  /** Takes the token that `freeAt` has found; returns the instant at which the call counts. */
  take(now: number): number
  /** Takes the mark of the probe where the account is broken; true if the call is the probe. */
  beginProbe(): boolean
  /** Gives the mark of the probe back: it was not made, or its result says nothing about the account. */
  abandonProbe(): void
  /**
   * Asked directly before the call is made. Returns the instant at which it counts: that of its token, or of another one
   * where the slot of its own is over. Undefined where no call may be made with it any more; then the token is undone.
   */
  renew(takenAt: number, now: number): number | undefined
  /** Takes back a token without a call. */
  undo(takenAt: number): void
  /** Counts a call later than it was taken; returns the instant at which it counts. */
  move(takenAt: number, later: number): number
  /** Tracks a call whose writing the provider will report: until then it may be written at any moment. */
  expect(call: CountedCall): void
  /**
   * Asked just before an expected call is written. False where the shared state has not counted it for too long: others may
   * have used its place meanwhile. Absent where all calls are made here.
   */
  mayLeave?(call: CountedCall, now: number): boolean
  /** Marks an expected call as written. */
  left(call: CountedCall): void
  /** Stops tracking a call that is not made. */
  forget(call: CountedCall): void
  /** Marks a call as answered. */
  answered(call: CountedCall, now: number, result: SendResult): void
  /** Ends a settled call: another one may begin. */
  end(takenAt: number): void
  listen(listener: AccountListener): void

  // ---- verdicts

  /** Tests if it is out of the pool: blocked, held, or its breaker is not closed. */
  isOut(now: number): boolean
  /** Tests if an operator holds it: then not even a probe is made. */
  isHeld(now: number): boolean
  /** True if it is out because it fails, not because of a rate limit. */
  readonly isBroken: boolean
  /** The instant until which a 429 or an operator keeps it out. */
  readonly waitsUntil: number
  /** The instant from which a probe may be made; undefined where none is due: it is not broken, or one is under way. */
  readonly probeAt: number | undefined
  /**
   * Judges the account by the result of a call and its duration. Returns the verdicts that are made here and now; others
   * are told to the listener.
   */
  judge(now: number, result: SendResult, tookMs: number, probe: boolean): readonly AccountChange[]
  /** Makes no call until this instant; 0 ends the hold. */
  hold(until: number, now: number, since?: number): void

  // ---- reports, as far as they are known here

  report(now: number): AccountReport
  details(now: number): AccountDetails
  past(now: number): AccountPast

  // ---- the record

  /** Returns the state that outlives a restart. */
  record(now: number): Pick<AccountRecord, 'blockedUntil' | 'outSince' | 'breaker' | 'use'>
  /** Called when its last record is on disk: calls that waited for it may be made. */
  recorded(): void
  /** Stops calling it: its next record covers no further calls. */
  retire(): void
  /** Makes no call until its short windows have passed: another process may have called it until this instant. */
  usedUntil(instant: number): void
  restore(record: Pick<AccountRecord, 'blockedUntil' | 'outSince' | 'breaker' | 'use'>): void
}
