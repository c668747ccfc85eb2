/**
 * The room of one tenant as a process knows it: its own use, that of the others at the last answer, the requests that wait,
 * and the places that it has ahead.
 */
import type { Occupancy, Room, RoomTaken, TenantBounds } from '../../../ports/tenants.ts'
import { fullBound } from '../memory-room.ts'

export interface RoomRequest {
  readonly room: Room
  /** How often it was refused for places that other processes had ahead. */
  tries: number
  readonly resolve: (taken: RoomTaken) => void
  readonly reject: (error: unknown) => void
}

/** Places that nothing has taken yet, and that count as used. */
export interface Ahead {
  queue: number
  bytes: number
  readonly generation: number
  /** The instant of `clock.monotonic` at which they are given back. */
  readonly endsAt: number
}

export type Use = { -readonly [Bound in keyof Occupancy]: number }

export interface Tenant {
  /** The use of this process: on record, and taken. */
  readonly own: Use
  /** Rooms that were taken and not given back: without them its use may be nothing by chance. */
  taken: number
  /** The use of all others at the last answer. */
  others: Occupancy
  bounds: TenantBounds
  waiting: RoomRequest[]
  /** The requests of the question that is under way. */
  asked: readonly RoomRequest[]
  isAsking: boolean
  /**
   * True after the first answer: the room names this process from then on, so that its use is read from the record where
   * it is found dead. The first question has a room that does not name it filled anew.
   */
  isMet: boolean
  /** True if the others do not know what this process uses. */
  hasChanged: boolean
  ahead: Ahead | undefined
  /** Single notifications that have asked for room since the last question, and the bytes of the largest. */
  singles: number
  singleBytes: number
  /** The instant of `clock.monotonic` of the last question. */
  askedAt: number
}

export const nothing: Occupancy = { queue: 0, waiting: 0, bytes: 0 }
const noBounds: TenantBounds = { queueMax: 0, waitingMax: 0, bytesMax: 0 }
/** Places that were taken ahead are kept so long, ms. Nobody else can use them meanwhile, so the time is short. */
const aheadMs = 100
const aheadMax = 32
/** The part of a bound that one process may have ahead. */
const aheadPart = 1 / 64
/**
 * A request that is refused for others' places ahead is asked again after so long, ms, and so often: they are given back
 * by then, unless their process has stopped.
 */
export const aheadGivenBackMs = 2 * aheadMs
const aheadTriesMax = 3

export const newTenant = (): Tenant => ({
  own: { ...nothing },
  taken: 0,
  others: nothing,
  bounds: noBounds,
  waiting: [],
  asked: [],
  isAsking: false,
  isMet: false,
  hasChanged: false,
  ahead: undefined,
  singles: 0,
  singleBytes: 0,
  askedAt: Number.NEGATIVE_INFINITY,
})

export const occupancyOf = ({ own, others }: Tenant): Occupancy => ({
  queue: own.queue + others.queue,
  waiting: own.waiting + others.waiting,
  bytes: own.bytes + others.bytes,
})

/** Computes the places to take ahead with the next question: one for each single notification since the last one. */
export function aheadOf(tenant: Tenant, nowMs: number): Pick<Ahead, 'queue' | 'bytes' | 'endsAt'> {
  const { bounds, askedAt, singles, singleBytes } = tenant
  const isBusy = nowMs - askedAt < 2 * aheadMs
  const queue = isBusy ? Math.min(aheadMax, Math.floor(bounds.queueMax * aheadPart), singles) : 0
  const bytes = Math.min(Math.floor(bounds.bytesMax * aheadPart), queue * singleBytes)
  return { queue, bytes, endsAt: nowMs + aheadMs }
}

/** Gives up what a process has ahead, since the state in which it was taken has gone. */
export function loseAhead(tenant: Tenant): void {
  tenant.ahead = undefined
  tenant.hasChanged = true
}

/** True if a request is refused for nothing but the places that others have ahead. */
export const fitsWithoutAhead = (tenant: Tenant, { room, tries }: RoomRequest): boolean =>
  tries < aheadTriesMax && fullBound(occupancyOf(tenant), room, tenant.bounds) === undefined

export const isSingle = ({ queue, critical, waiting }: Room): boolean =>
  queue === 1 && critical + waiting === 0

export const useOf = ({ queue, critical, waiting, bytes = 0 }: Room): Occupancy => ({
  queue: queue + critical,
  waiting,
  bytes,
})
