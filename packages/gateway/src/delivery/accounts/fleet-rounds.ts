/** The part of a pool that asks and tells for all its accounts, as one of these accounts sees it. */
import type { SendResult } from '../../ports.ts'

export interface FleetRounds<A> {
  /** The width of a slot, ms. */
  readonly slotMs: number
  now(): number
  /** True while this process judges the account. */
  isJudge(account: A): boolean
  /** Asks for tokens with the next question. */
  want(account: A): void
  /** Returns the next instant at which more may be had. */
  nextAt(now: number): number
  /** Tells the news of an account: with the next question, or at once. */
  tell(account: A, isUrgent: boolean): void
  /** Tokens came into the hand of this process, or left it unused. */
  held(tokens: number, unused: number): void
  report(account: A, now: number, result: SendResult, tookMs: number, probe: boolean): void
}
