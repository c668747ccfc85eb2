/** The store's port for the right to send; `Store` includes its method. */
import type { Notification } from './model.ts'

/** The rights that a store gave. */
export interface GivenRights {
  /** Ids without the right: what is on record under them is not the version that was asked for. */
  readonly refused: ReadonlySet<string>
  /**
   * The time from the asking after which no call may be made under these rights, ms. Infinity where no other process can
   * take, cancel or change a notification that this process holds.
   */
  readonly forMs: number
}

export interface SendRights {
  /**
   * Gives the right to hand notifications to their providers, directly before their limits are asked and the calls are
   * made. Where several processes share the record, the right is written with the member and the epoch of the process
   * before it is answered: a notification that has it is `sending` for every process, and what another process has
   * cancelled, changed or taken over is refused. A right may be asked for again, and ends with the next move. The store
   * of one process answers at once, without a promise.
   *
   * Rejects with STORE_UNAVAILABLE; then no call may be made.
   */
  begin(of: readonly { readonly notification: Notification }[]): GivenRights | Promise<GivenRights>
}
