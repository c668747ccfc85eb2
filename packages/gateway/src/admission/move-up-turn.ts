/**
 * The turn of one subject in which waiting notifications move up: which of them have to be evaluated again, because a
 * place became free after the pass, and which are new. Pure.
 */
import type { Subject } from '../ports.ts'
import type { MoveUpPause } from './move-up-pause.ts'

export interface MoveUpTurn {
  readonly over: Promise<void>
  /** Resolves `over`. */
  readonly end: () => void
  /** Holds newcomers up. */
  readonly pause: MoveUpPause
  /** True if a place became free that those who were evaluated first may take at once. */
  isFreed: boolean
  /** True if the pass under way must be repeated for notifications that it has evaluated. */
  readonly isBehind: boolean
  /** Notes that an id is evaluated next. */
  evaluating(id: string): void
  /** Notes that a notification keeps an instant, epoch ms; `Infinity` where any place may suit it. */
  keeps(at: number): void
  /** Notes that a place is free; its instant, epoch ms, or undefined where it is not known. */
  freed(at: number | undefined): void
  /**
   * Notes that an id must be evaluated again, and those behind it: it was not on record yet, or the turn of another
   * subject has left it to this one.
   */
  revisit(id: string): void
  /** Selects the ids that are to be evaluated by the next pass, and begins it. */
  next(waiting: readonly string[]): readonly string[]
}

/**
 * Limits keep windows longer than they are written by their margin, which is below this, ms: a place affects no instant
 * that lies further away than the longest window and this.
 */
const slackMs = 60_000

/** @param from - the first pass begins with this id. @defaultValue all */
export function createMoveUpTurn(pause: MoveUpPause, longestWindowMs: number, from?: string): MoveUpTurn {
  const { promise, resolve } = Promise.withResolvers<void>()
  const reachMs = longestWindowMs + slackMs
  /** The greatest id of all passes. */
  let last = ''
  /** The greatest id that the pass under way has come to, or else that it leaves out before its first one. */
  let current = ''
  /** The pass under way evaluates every id behind its first one. */
  let isWhole = true
  /** The latest instant that an evaluated notification keeps. Where the first ids are left out it is not known. */
  let latest = from === undefined ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  /** Ids up to `upTo`, and from `since` on, are evaluated again. */
  let upTo: string | undefined
  let since: string | undefined = from ?? ''

  return {
    over: promise,
    end: resolve,
    pause,
    isFreed: false,
    get isBehind() {
      return upTo !== undefined
    },
    evaluating(id) {
      if (id > current) current = id
    },
    keeps(at) {
      if (at > latest) latest = at
    },
    freed(at) {
      // Later ids of a whole pass are still to be evaluated, and the earlier ones hold instants before all that it affects.
      if (at !== undefined && isWhole && latest <= at - reachMs) return
      this.isFreed = true
      const behind = isWhole ? current : last
      if (upTo === undefined || behind > upTo) upTo = behind
    },
    revisit(id) {
      if (isWhole && id > current && id <= last) return
      if (since === undefined || id < since) since = id
    },
    next(waiting) {
      const ids = waiting.filter(
        (id) => id > last || (upTo !== undefined && id <= upTo) || (since !== undefined && id >= since),
      )
      isWhole = upTo === undefined || upTo >= last
      const greatest = ids.at(-1) ?? ''
      if (greatest > last) last = greatest
      const [first] = ids
      current = (first === undefined ? undefined : waiting[waiting.indexOf(first) - 1]) ?? ''
      upTo = undefined
      since = undefined
      this.isFreed = false
      return ids
    },
  }
}

/** True if the turn of the one subject evaluates what waits in both: limits over several recipients come first. */
export function comesBefore(one: Subject, other: Subject): boolean {
  const isShared = one.recipient === undefined
  if (isShared !== (other.recipient === undefined)) return isShared
  return one.key < other.key
}
