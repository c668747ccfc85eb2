/** The store's port for the right to send; `Store` includes its method. */
import type { Notification } from '../model.ts'
import type { StoredRecipient } from './recipients.ts'

/**
 * A notification that is about to be sent, and its recipient as it was read: `null` where none is on record, and no erasure
 * has left opt-outs.
 */
export interface RightRequest {
  readonly notification: Notification
  readonly recipient?: StoredRecipient | null
}

/** The rights that a store gave. */
export interface GivenRights {
  /** Ids without the right: what is on record under them is not the version that was asked for. */
  readonly refused: ReadonlySet<string>
  /**
   * Ids with the right whose recipient has another version on record than the request names, or other opt-outs that an
   * erasure has left: the recipient must be read again before the call. Absent where no other process writes recipients.
   */
  readonly outdated?: ReadonlySet<string>
  /**
   * The time from the asking after which no call may be made under these rights, ms. Infinity where no other process can
   * take, cancel or change a notification that this process holds.
   */
  readonly forMs: number
  /**
   * The instant of `Clock.monotonic` at which the store sent its question, from which the time counts. Absent where it
   * counts from the call of `begin`.
   */
  readonly askedAt?: number
  /**
   * The newest registration of each server of limiter state, by its node, as it was on record when the rights were given:
   * what is asked of a server under an older one counts in a life that has ended. Absent where no server is registered.
   */
  readonly servers?: ReadonlyMap<string, number>
  /**
   * A mark of the holds on record when the rights were given. Where it is another one than before, a process has put or
   * ended holds: they must be read before the call. Absent where no other process writes holds.
   */
  readonly holds?: string
}

export interface SendRights {
  /**
   * The time after a commit for which other processes may still make calls under rights that they got before it, ms:
   * whoever forbids calls answers after that. 0 in a store of one process.
   */
  readonly othersCallForMs: number
  /**
   * Gives the right to hand notifications to their providers, directly before their limits are asked and the calls are
   * made. Where several processes share the record, the right is written with the member and the epoch of the process
   * before it is answered: a notification that has it is `sending` for every other process, and what another process
   * holds, has cancelled, changed or taken over is refused. A right may be asked for again, and ends with the next move.
   * The store of one process answers at once, without a promise.
   *
   * Rejects with STORE_UNAVAILABLE; then no call may be made.
   */
  begin(of: readonly RightRequest[]): GivenRights | Promise<GivenRights>
}
