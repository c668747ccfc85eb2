/** Holds that an operator sets, as the store keeps them: an account is out, or notifications stop, until an instant. */
import type { Channel } from '../model.ts'

export interface HoldRecord {
  /** Identifies it: a name that the operator chose, or `<channel>/<account>` for an account. */
  readonly name: string
  /** The account that is out; absent where notifications are stopped. Its channel is `channel`. */
  readonly account?: string
  /** The notifications that are stopped; an absent field selects all. */
  readonly tenant?: string
  readonly channel?: Channel
  readonly category?: string
  readonly since: number
  readonly until: number
  /** The operator's own words. */
  readonly reason: string
}

/**
 * A write of one hold; the later one of the same name replaces the earlier. An end with `until` removes only a hold that
 * ends at that instant: where another process has put a newer one of the same name in force, nothing happens.
 */
export type HoldWrite =
  | { readonly kind: 'put'; readonly hold: HoldRecord }
  | { readonly kind: 'end'; readonly name: string; readonly until?: number }
