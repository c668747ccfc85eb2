/**
 * The options of calls, and their validation. Everything behind this file works with
 * `Terms`, in which nothing is missing and nothing is wrong.
 */
import { checkText, checkWhole, isWhole, LimitsError } from './errors.ts'
import { checkForbidden, type ForbiddenInterval, nothingForbidden } from './forbidden.ts'
import type { Limit } from './limit.ts'
import { checkNames, type Meant } from './options.ts'
import { type Kind, type Priority, plainTerms, priorities, type RestoredEntry, type Terms } from './store.ts'
import { windowCountMax } from './window.ts'

export interface CheckOptions {
  /**
   * How many are counted at once: all of them or none.
   *
   * @defaultValue 1
   */
  readonly weight?: number
}

export interface TakeOptions extends CheckOptions {
  /**
   * Makes the call idempotent: an id that counts already is not counted again, and its decision says `allowed`.
   *
   * @defaultValue none
   */
  readonly id?: string
}

export interface FireOptions extends CheckOptions {
  /**
   * Not before this instant, epoch ms.
   *
   * @defaultValue now
   */
  readonly notBefore?: number
  /**
   * Not within these intervals.
   *
   * @defaultValue none
   */
  readonly forbidden?: readonly ForbiddenInterval[]
}

export interface ReserveOptions extends FireOptions {
  /** The id under which the place is held. The same id again gets the same instant and takes nothing. */
  readonly id: string
  /**
   * An instant later than max(now, notBefore) + horizonMs is answered but not held, ms.
   *
   * @defaultValue Infinity
   */
  readonly horizonMs?: number
  /**
   * A `high` reservation takes the places of `low` ones that are in its way and have not gone; their ids are
   * answered in `evicted`, and they hold nothing from then on.
   *
   * @defaultValue 'normal'
   */
  readonly priority?: Priority
  /**
   * The place counts at its instant by itself, without `fire`: for limits on what is accepted rather than on what leaves.
   *
   * @defaultValue false
   */
  readonly firm?: boolean
}

export interface PreviewOptions extends Omit<ReserveOptions, 'id'> {
  /**
   * An id that holds a place already is answered from it.
   *
   * @defaultValue none
   */
  readonly id?: string
}

export interface Call {
  readonly subject: string
  readonly rules: readonly Limit[]
}
export interface TakeCall extends Call, TakeOptions {}
export interface ReserveCall extends Call, ReserveOptions {}
export interface PreviewCall extends Call, PreviewOptions {}
export interface FireCall extends Call, FireOptions {
  readonly id: string
}

/** Any of the options above. */
export interface AnyOptions extends PreviewOptions {}

const keyMax = 1_024
const instantMax = 8.64e15

const ofCheck = ['weight']
const ofFire = ['weight', 'notBefore', 'forbidden']
const ofReserve = ['weight', 'notBefore', 'forbidden', 'id', 'horizonMs', 'priority', 'firm']

/** The options of each call; `fire` and `force` have their id among the arguments. */
const optionsOf: Readonly<Record<Kind, readonly string[]>> = {
  take: ['weight', 'id'],
  check: ofCheck,
  force: ofCheck,
  fire: ofFire,
  reserve: ofReserve,
  preview: ofReserve,
}

const meant: Meant = {
  cost: 'weight',
  points: 'weight',
  count: 'weight',
  tokens: 'weight',
  after: 'notBefore',
}

/** Fills in the defaults. @throws LimitsError `INVALID_ARGUMENT` */
export function termsOf(kind: Kind, options: AnyOptions | undefined): Terms {
  if (options === undefined) return plainTerms
  checkNames(options, optionsOf[kind], meant)
  const {
    weight = 1,
    notBefore = 0,
    forbidden = nothingForbidden,
    horizonMs = Infinity,
    priority = 'normal',
    firm = false,
  } = options
  checkWhole('weight', weight, 1, windowCountMax)
  if (typeof notBefore !== 'number' || !(notBefore <= instantMax))
    refuse(`notBefore is an instant in epoch milliseconds, not ${String(notBefore)}`)
  if (typeof horizonMs !== 'number' || !(horizonMs >= 0))
    refuse(`horizonMs is 0 or more milliseconds, not ${String(horizonMs)}`)
  if (!priorities.includes(priority))
    refuse(`priority is one of ${priorities.join(', ')}, not ${String(priority)}`)
  if (typeof firm !== 'boolean') refuse('firm is true or false')
  if (!Array.isArray(forbidden)) refuse('forbidden is a list of { from, to }')
  const instant = notBefore > 0 ? Math.ceil(notBefore) : 0
  const intervals = forbidden.length === 0 ? nothingForbidden : checkForbidden(forbidden)
  return { weight, notBefore: instant, forbidden: intervals, horizonMs, priority, firm }
}

/** The longest block, ms. */
const blockMsMax = 100 * 366 * 86_400_000

/** @throws LimitsError `INVALID_ARGUMENT` */
export function checkBlock(ms: number): number {
  checkWhole('the ms of a block (up to 100 years)', ms, 1, blockMsMax)
  return ms
}

/**
 * The options of a store or limiter: an object with no other names than these.
 *
 * @throws LimitsError `INVALID_ARGUMENT`
 */
export function checkOptions<O extends object>(options: O, ...known: readonly (keyof O & string)[]): O {
  return checkNames(options, known)
}

/** Refuses a clock that is no function; undefined is the default clock. @throws LimitsError `INVALID_ARGUMENT` */
export function checkClock(now: (() => number) | undefined): void {
  if (now !== undefined && typeof now !== 'function')
    refuse('now is a function that returns epoch milliseconds')
}

type Key = 'subject' | 'one of streams' | 'id' | 'account' | 'key' | 'userId' | 'channel' | 'category'

/** @throws LimitsError `INVALID_ARGUMENT` */
export function checkKey(what: Key, key: string): void {
  checkText('INVALID_ARGUMENT', what, key, keyMax)
}

/** A list as it is, for those who call without types. @throws LimitsError `INVALID_ARGUMENT` */
export function checkList<T extends object>(what: string, list: readonly T[]): readonly T[] {
  if (!Array.isArray(list) || !list.every((item) => typeof item === 'object' && item !== null))
    refuse(`${what} are a list of objects`)
  return list
}

/** @throws LimitsError `INVALID_ARGUMENT` */
export function checkEntries(entries: readonly RestoredEntry[]): readonly RestoredEntry[] {
  for (const { id, at, fired, streams, weight = 1 } of checkList('entries', entries)) {
    checkKey('id', id)
    if (!isWhole(at, 0)) refuse(`entry '${id}' is at ${String(at)}: whole epoch milliseconds are needed`)
    if (typeof fired !== 'boolean') refuse(`entry '${id}': fired is true or false`)
    if (!Array.isArray(streams)) refuse(`entry '${id}': streams is a list of names`)
    for (const stream of streams) checkKey('one of streams', stream)
    checkWhole(`entry '${id}': weight`, weight, 1, windowCountMax)
  }
  return entries
}

function refuse(reason: string): never {
  throw new LimitsError('INVALID_ARGUMENT', reason)
}
