/**
 * The ports to what is counted for each tenant: the limits of the tenant and its modules with their throttle queues, the
 * room within its bounds, and the record from which both are filled when their state is lost.
 */
import type { TenantGeneration } from '../ports.ts'

// ---- tenant throttle
//
// The port towards the limits of tenants and modules, which count acceptances, and the throttle queues before them. It is
// asked for all notifications of a tenant at once, so that an engine across a network needs one round trip; the state in
// memory answers without a promise. Instants are epoch milliseconds, durations milliseconds.

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

// ---- room
//
// The port that counts how much of its bounds each tenant uses. A fleet counts over all of its processes.

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
   * Takes room before a change is written; it is given back after the change, when that counts by itself. No bound is
   * exceeded, whoever takes at the same time. Without a promise where no other process must be asked; rejects with
   * STATE_UNAVAILABLE.
   */
  take(tenant: string, room: Room, bounds: TenantBounds): RoomTaken | Promise<RoomTaken>
  /** Returns the use of a tenant's bounds, with the room that is taken now; that of other processes as it is known. */
  of(tenant: string): Occupancy
}

// ---- filling lost state
//
// The port of the record from which the limits of tenants and their room are filled when the state that holds them is
// lost. A generation comes first: changes of an earlier one are on record by then, or are refused.

/** An entry on record that counts in the limits of its tenant and module. */
interface CountedEntry {
  readonly module: string
  /** The instant at which it counts, epoch ms. */
  readonly at: number
  readonly isCritical: boolean
}

/** An entry on record that waits in the throttle queue of its tenant. */
interface WaitingEntry {
  readonly id: string
  readonly module: string
  /** The place that it was promised, epoch ms. */
  readonly at: number
  readonly dueAt: number
}

export interface TenantRecords {
  /**
   * Gives the throttle queues of a tenant their next generation. Returns when every change of an earlier one is on
   * record or refused. Rejects with STORE_UNAVAILABLE, as all of these.
   */
  nextThrottleGeneration(tenant: string): Promise<number>
  /**
   * Reads the entries that have passed since, and those that wait in the order of acceptance, page by page. No turn is
   * written meanwhile if `nextThrottleGeneration` has returned before, and nothing is decided in its generation yet.
   */
  entries(
    tenant: string,
    since: number,
  ): Promise<{ readonly counted: readonly CountedEntry[]; readonly waiting: readonly WaitingEntry[] }>
  /** Names the tenants that have waiting entries. */
  waitingTenants(): Promise<readonly string[]>
  /** Reads the present generations of a tenant's state; 0 of a state that was never filled. */
  generations(tenant: string): Promise<{ readonly [State in TenantGeneration['state']]: number }>
  /** Gives the room of a tenant its next generation. */
  nextRoomGeneration(tenant: string): Promise<number>
  /** Reads what each member has on record; a member of its own stands for those that have ended. */
  tallies(tenant: string): Promise<readonly (Occupancy & { readonly member: string })[]>
}
