/**
 * The port towards the limits of tenants and modules, which count acceptances, and the throttle queues before them. It is
 * asked for all notifications of a tenant at once, so that an engine across a network needs one round trip; the state in
 * memory answers without a promise. Instants are epoch milliseconds, durations milliseconds.
 */

/** A notification in the limits of its tenant and module. */
export interface ThrottleRequest {
  readonly id: string
  readonly module: string
  readonly expiresAt?: number | undefined
  /** A critical notification passes and counts all the same. @defaultValue false */
  readonly isCritical?: boolean
}

/** The place of a new entry. */
export interface ThrottlePlace {
  readonly at: number
  /** True where the entry waits in the queue until then; false where it has passed. */
  readonly waits: boolean
  /** The limit that makes it wait. */
  readonly behind: 'tenant' | 'module'
  /**
   * The generation of the queues in which it was given, to be compared in the commit of the acceptance: after a loss of
   * the state the store refuses earlier ones. Absent where this process alone keeps the queues.
   */
  readonly generation?: number
}

/** The usage of one window. */
export interface WindowUse {
  readonly of: 'tenant' | 'module'
  readonly window: string
  readonly windowMs: number
  readonly max: number
  /** Entries in the window that ends now, without waiting ones. */
  readonly used: number
  readonly remaining: number
  /** The time when the oldest entry leaves the window; now where it is empty. */
  readonly resetAt: number
  /** The time when the next place is free, after all waiting entries. */
  readonly freesAt: number
}

export interface ThrottlePassed {
  /** The place of each request, in their order. */
  readonly places: readonly ThrottlePlace[]
  /** The usage that the first request met that waits; absent where all have passed. */
  readonly use?: readonly WindowUse[]
}

/** The turn of an entry: it has passed, and counts at this time, or it waits in the throttle queue until then. */
export interface ThrottleTurn {
  readonly passed: boolean
  readonly at: number
  /** The generation of the queues, as of a place. */
  readonly generation?: number
}

/** Decides notifications whose turn has come before their stored `dueAt`. */
export type Promote = (tenant: string, ids: readonly string[]) => Promise<void>

/** All methods reject with STATE_UNAVAILABLE, or STORE_UNAVAILABLE where the state is restored from the store. */
export interface ThrottleState {
  /** True if the tenant or its modules have limits. */
  isLimited(tenant: string): boolean
  /**
   * Counts the requests that may pass now, and puts the others at the end of the throttle queues of their modules: first
   * in, first out. No window ever has more than its maximum, except for critical ones. Undefined for a tenant without
   * limits and without entries.
   */
  pass(
    tenant: string,
    requests: readonly ThrottleRequest[],
  ): ThrottlePassed | undefined | Promise<ThrottlePassed | undefined>
  /** Takes back requests that were not accepted, the last one first: passed ones do not count any more. */
  takeBack(
    tenant: string,
    requests: readonly (Pick<ThrottleRequest, 'id' | 'module'> & { readonly place: ThrottlePlace })[],
  ): void | Promise<void>
  /** Takes the turns of entries that are due. Those that are in no queue have passed now. */
  turn(
    tenant: string,
    requests: readonly Pick<ThrottleRequest, 'id' | 'module'>[],
  ): readonly ThrottleTurn[] | Promise<readonly ThrottleTurn[]>
  /**
   * Puts entries back whose turns came at these instants, epoch ms, and could not be written: they stay counted there, and
   * stand in their queues with that place, so that no other entry gets it. Turns of an earlier generation change nothing:
   * a fill has restored their entries, or has counted them. A turn that was given twice is put back once.
   */
  putBack(
    tenant: string,
    requests: readonly (Pick<ThrottleRequest, 'id' | 'module'> & Pick<ThrottleTurn, 'at' | 'generation'>)[],
  ): void | Promise<void>
  /**
   * Removes entries that end while they wait: the entries behind them move up. An entry with `isCounted` was put back
   * although its turn is on record: it stays counted.
   */
  leave(
    tenant: string,
    requests: readonly (Pick<ThrottleRequest, 'id' | 'module'> & { readonly isCounted?: boolean })[],
  ): void | Promise<void>
  /** Answers as `pass` would for one request that is not critical, and counts nothing. */
  preview(
    tenant: string,
    module: string,
  ):
    | (ThrottlePlace & { readonly use: readonly WindowUse[] })
    | undefined
    | Promise<(ThrottlePlace & { readonly use: readonly WindowUse[] }) | undefined>
  /** Reports the usage of the windows of the tenant and the module; empty where there are none. */
  use(tenant: string, module: string): readonly WindowUse[] | Promise<readonly WindowUse[]>
  /** Returns the present place of an entry, which is never later than before; undefined outside the queues. */
  placeOf(
    tenant: string,
    request: Pick<ThrottleRequest, 'id' | 'module'>,
  ): number | undefined | Promise<number | undefined>
  /** Restores the queues that are not empty, and calls back with entries whose turn comes before their stored instant. */
  start(promote: Promote): Promise<void>
  stop(): Promise<void>
}
