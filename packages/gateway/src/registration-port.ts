/**
 * The port that numbers the servers of limiter state. A value in a server counts only where it bears the number under which
 * the server is registered: after a restart, a promotion or a failback it bears another one, and is unknown. Unknown is
 * not empty: the value is filled from the record before anything is decided.
 */

/** A server in one of its lives: a restart changes the run id, a promotion the replication id. */
export interface ServerLife {
  /** The address, host and port. */
  readonly node: string
  readonly runId: string
  readonly replicationId: string
}

export interface Registrations {
  /**
   * Returns the number of this life: the one it has while it is the newest of its node, else the next one. No number is
   * given twice, in no process of the fleet. Rejects with STORE_UNAVAILABLE.
   */
  register(life: ServerLife): number | Promise<number>
}

/** Registrations that are on record for several processes. */
export interface NewestRegistrations extends Registrations {
  /** Reads the newest registration of each server, by its node. Rejects with STORE_UNAVAILABLE. */
  newest(): Promise<ReadonlyMap<string, number>>
}
