/**
 * The store's port for notifications whose process died, or whose claim was lost on its way back; `Store` includes its
 * methods. A process holds what `claimDue` gave it and what it wrote with a dueAt up to its `claimedUntil`.
 */
import type { Notification } from './model.ts'
import type { KeepsLeftToBroker } from './outgoing-port.ts'

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
export type HeldName = Pick<Notification, 'tenant' | 'id'>

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
   * Reads the names of notifications that this process holds on record and that were due by an instant, in the order of
   * their ids, after the cursor. Embedded: none, because no answer is lost there.
   */
  heldOnRecord(dueBy: number, after: string | null, limit: number): Promise<readonly HeldName[]>
}
