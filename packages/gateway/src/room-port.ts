/** The port that counts how much of its bounds each tenant uses. A fleet counts over all of its processes. */

/** Room within the bounds of a tenant; `critical` may use a tenth of the queue on top, at least one. */
export interface Room {
  readonly queue: number
  readonly critical: number
  readonly waiting: number
  /** Bytes of content, as it is stored. @defaultValue 0 */
  readonly bytes?: number
}

export interface TenantBounds {
  /**
   * Maximum of queued notifications, those delayed by a tenant or module limit, dead letters, and what jobs still
   * accept.
   */
  readonly queueMax: number
  /** Maximum of notifications that are scheduled, in a digest, or delayed by a recipient limit. */
  readonly waitingMax: number
  /** Maximum bytes of content that waits, as it is stored. */
  readonly bytesMax: number
}

/** The use of each bound of one tenant. */
export interface Occupancy {
  readonly queue: number
  readonly waiting: number
  readonly bytes: number
}

/**
 * Room that was taken, with the function that gives it back. Room of a fleet has the generation of its counts, to be
 * compared in the commit: after their loss the store refuses earlier ones.
 */
export interface TakenRoom {
  readonly giveBack: () => void
  readonly generation?: number
}

/** Room that was taken, or the bound that has not enough and its present use. */
export type RoomTaken = TakenRoom | { readonly full: keyof Occupancy; readonly used: number }

export interface RoomState {
  /** True where the room of several processes is filled from the record: nothing is counted at the start of one. */
  readonly isShared?: true
  /** Counts what this process has put on record, or taken off it. */
  count(tenant: string, by: Partial<Occupancy>): void
  /**
   * Takes room before a change is written; it is given back behind the change, when that counts by itself. No bound is
   * exceeded, whoever takes at the same time. Without a promise where no other process must be asked; rejects with
   * STATE_UNAVAILABLE.
   */
  take(tenant: string, room: Room, bounds: TenantBounds): RoomTaken | Promise<RoomTaken>
  /** Returns the use of a tenant's bounds, with the room that is taken now; that of other processes as it is known. */
  of(tenant: string): Occupancy
}
