/**
 * Quiet hours: which instants are quiet, and when the next one comes that is not. Have a ruler in mind: a time
 * zone is a row of segments with one UTC offset each, and inside a segment quiet hours repeat every 24 hours, so
 * that everything is arithmetic. Daylight saving is nothing but the seam between two segments: a gap can swallow
 * the start or the end of quiet hours, and an hour that is repeated can be quiet twice.
 */
import { dropOldest, isTimeZone, wallClockOf } from './time-zone.ts'

/** Wall times of one day. `from` is quiet, `to` no longer is; `from` after `to` wraps over midnight. */
export interface QuietHours {
  /** `HH:MM`, 00:00 to 23:59. */
  readonly from: string
  /** `HH:MM`, 00:00 to 23:59. The same as `from` means: never quiet. */
  readonly to: string
}

/** Quiet hours on the wall clocks of one time zone. */
export interface QuietSpec extends QuietHours {
  /** A name of the IANA time zone database, as `isTimeZone` knows them. */
  readonly timeZone: string
}

/** One quiet spec, or several of which each forbids: an instant is quiet when any of them says so. */
export type QuietSpecs = QuietSpec | readonly QuietSpec[]

/** A half-open interval [from, to) of epoch milliseconds. */
export interface QuietInterval {
  readonly from: number
  /** Infinity where no end is in sight, see `nextAllowed`. */
  readonly to: number
}

/** Why a value about quiet hours was refused. */
export type QuietHoursErrorCode =
  | 'INVALID_WALL_TIME'
  | 'INVALID_ALLOWED_HOURS'
  | 'INVALID_TIME_ZONE'
  | 'INVALID_INSTANT'

/** A value about quiet hours that was refused where it was given; the message says what was expected. */
export class QuietHoursError extends Error {
  readonly code: QuietHoursErrorCode

  constructor(code: QuietHoursErrorCode, reason: string) {
    super(reason)
    this.name = 'QuietHoursError'
    this.code = code
  }
}

const SECOND_MS = 1_000
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

const WALL_TIME = /^([01]\d|2[0-3]):[0-5]\d$/
const DIGIT_0 = 48

/** ECMA-262 gives dates no instants beyond this. */
const INSTANT_MAX_MS = 8.64e15

/** A year and a day: every yearly change of the clocks lies within it. */
const SEARCH_MS = 366 * DAY_MS

/**
 * Offsets are looked at this far apart. A shorter excursion from an offset and back would stay unseen; the
 * shortest in the IANA database is 4 days (Freetown 1939), the next 7 (Recife 2000, Gaza 2040).
 */
const PROBE_MS = DAY_MS

/** The time that one scan covers: four months, so that a month's horizon seldom needs a second scan. */
const CHUNK_MS = 128 * DAY_MS

/** Eleven years in each zone; the chunk that was added first goes first. */
const CHUNKS_MAX = 32

/** The IANA database has about 600 names, links included; the zone that was added first goes first. */
const ZONES_MAX = 600

/** A stretch [from, to) of instants in which a zone keeps one offset from UTC, 0 ≤ offset < 24 h. */
interface Segment {
  readonly from: number
  readonly to: number
  readonly offsetMs: number
}

/** A spec made ready for arithmetic. */
interface Rule {
  readonly zone: Zone
  readonly fromMs: number
  readonly toMs: number
}

/** The offsets of one time zone, found when they are first asked for. */
class Zone {
  readonly #name: string
  readonly #chunks = new Map<number, readonly Segment[]>()
  #last: Segment = { from: Infinity, to: -Infinity, offsetMs: 0 }

  constructor(name: string) {
    this.#name = name
  }

  segmentAt(instantMs: number): Segment {
    const last = this.#last
    if (last.from <= instantMs && instantMs < last.to) return last
    const index = Math.floor(instantMs / CHUNK_MS)
    let chunk = this.#chunks.get(index)
    if (chunk === undefined) {
      chunk = findSegments(this.#name, index * CHUNK_MS, (index + 1) * CHUNK_MS)
      dropOldest(this.#chunks, CHUNKS_MAX)
      this.#chunks.set(index, chunk)
    }
    this.#last = chunk.find((segment) => instantMs < segment.to)!
    return this.#last
  }
}

const zones = new Map<string, Zone>()

function zoneOf(name: string): Zone {
  const known = zones.get(name)
  if (known !== undefined) return known
  if (!isTimeZone(name)) {
    throw new QuietHoursError(
      'INVALID_TIME_ZONE',
      `${shown(name)} is not an IANA time zone such as "Europe/Rome" or "UTC"`,
    )
  }
  const zone = new Zone(name)
  dropOldest(zones, ZONES_MAX)
  zones.set(name, zone)
  return zone
}

/**
 * How far the wall clock is ahead of UTC at a whole second, in ms. Only the time of day matters to quiet hours:
 * the offset is taken modulo 24 hours, dates need not be read, and a zone that skips a day changes nothing.
 */
function readOffset(wallClock: Intl.DateTimeFormat, instantMs: number): number {
  const fields = wallClock.format(Math.min(instantMs, INSTANT_MAX_MS)).match(/\d+/g)!.map(Number)
  const [hour, minute, second] = fields as [number, number, number]
  return timeOfDay(hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS - instantMs)
}

function findSegments(timeZone: string, chunkFrom: number, chunkTo: number): readonly Segment[] {
  const wallClock = wallClockOf(timeZone)
  const segments: Segment[] = []
  let from = chunkFrom
  let offsetMs = readOffset(wallClock, from)
  for (let probe = chunkFrom; probe < chunkTo; probe += PROBE_MS) {
    const next = probe + PROBE_MS
    const nextOffsetMs = readOffset(wallClock, next)
    while (offsetMs !== nextOffsetMs) {
      const to = findChange(wallClock, Math.max(probe, from), next, offsetMs)
      segments.push({ from, to, offsetMs })
      from = to
      offsetMs = readOffset(wallClock, to)
    }
  }
  if (from < chunkTo) segments.push({ from, to: chunkTo, offsetMs })
  return segments
}

/** The second at which the offset is no longer what it was at `low`; it is another at `high`. */
function findChange(wallClock: Intl.DateTimeFormat, low: number, high: number, offsetMs: number): number {
  while (high - low > SECOND_MS) {
    const middle = low + Math.floor((high - low) / (2 * SECOND_MS)) * SECOND_MS
    if (readOffset(wallClock, middle) === offsetMs) low = middle
    else high = middle
  }
  return high
}

/** Milliseconds since midnight, also before 1970. */
function timeOfDay(wallMs: number): number {
  const rest = wallMs % DAY_MS
  return rest < 0 ? rest + DAY_MS : rest
}

function isWithin(rule: Rule, timeMs: number): boolean {
  const { fromMs, toMs } = rule
  return fromMs <= toMs ? fromMs <= timeMs && timeMs < toMs : timeMs >= fromMs || timeMs < toMs
}

/** The least instant ≥ `t` at which this rule is quiet, or is not; Infinity for a rule that is never quiet. */
function next(rule: Rule, t: number, quiet: boolean): number {
  if (quiet && rule.fromMs === rule.toMs) return Infinity
  const boundaryMs = quiet ? rule.fromMs : rule.toMs
  for (;;) {
    const segment = rule.zone.segmentAt(t)
    const timeMs = timeOfDay(t + segment.offsetMs)
    if (isWithin(rule, timeMs) === quiet) return t
    const boundary = t + timeOfDay(boundaryMs - timeMs)
    if (boundary < segment.to) return boundary
    t = segment.to
  }
}

/**
 * The least instant ≥ `t` that all rules leave free. Each step is forced, so the fixpoint is the minimum. Where
 * 24 hours at unchanged offsets were quiet throughout, so is all the time up to the next change of an offset.
 */
function leaveAll(rules: readonly Rule[], t: number): number {
  const only = rules[0]
  if (only === undefined) return t
  if (rules.length === 1) return next(only, t, false)
  const giveUpAt = t + SEARCH_MS
  let steadyFrom = t
  let steadyTo = steadyUntil(rules, t)
  while (t < giveUpAt) {
    const before = t
    for (const rule of rules) t = next(rule, t, false)
    if (t === before) return t
    if (t < steadyTo && t - steadyFrom < DAY_MS) continue
    if (t < steadyTo) t = steadyTo
    steadyFrom = t
    steadyTo = steadyUntil(rules, t)
  }
  return Infinity
}

function steadyUntil(rules: readonly Rule[], t: number): number {
  let until = Infinity
  for (const rule of rules) until = Math.min(until, rule.zone.segmentAt(t).to)
  return until
}

function enterAny(rules: readonly Rule[], t: number): number {
  let first = Infinity
  for (const rule of rules) first = Math.min(first, next(rule, t, true))
  return first
}

function toRule(spec: QuietSpec): Rule {
  const { timeZone, from, to } = spec ?? {}
  return { zone: zoneOf(timeZone), fromMs: parseWallTime(from), toMs: parseWallTime(to) }
}

function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value)
}

function isList(specs: QuietSpecs): specs is readonly QuietSpec[] {
  return Array.isArray(specs)
}

function toRules(specs: QuietSpecs): readonly Rule[] {
  return isList(specs) ? specs.map(toRule) : [toRule(specs)]
}

function checkInstant(instantMs: number): void {
  // NaN fails every comparison, so the good case is the one that is asked for.
  if (typeof instantMs === 'number' && Math.abs(instantMs) <= INSTANT_MAX_MS) return
  throw new QuietHoursError('INVALID_INSTANT', `${String(instantMs)} is not an instant in epoch milliseconds`)
}

/**
 * Tells whether the local wall clock reads a time in [from, to) at this instant, for any of the specs.
 *
 * @param instantMs - epoch milliseconds
 * @throws QuietHoursError `INVALID_INSTANT`, `INVALID_WALL_TIME`, `INVALID_TIME_ZONE`
 */
export function isQuiet(instantMs: number, specs: QuietSpecs): boolean {
  checkInstant(instantMs)
  for (const rule of toRules(specs)) {
    if (isWithin(rule, timeOfDay(instantMs + rule.zone.segmentAt(instantMs).offsetMs))) return true
  }
  return false
}

/**
 * The least instant ≥ `instantMs` that is quiet for none of the specs: the instant itself, the end of quiet
 * hours, or the very instant at which the clocks change. Infinity when specs that complement each other leave
 * nothing free for a year.
 *
 * Measured by `npm run bench -- quiet-hours` on 2 shared cores, Node 24: 0.09 µs for one spec, 0.18 µs for two, 1.1 µs
 * where nothing is free; 0.2 µs for a first forbidden interval. One reading of `Intl.DateTimeFormat` is 0.6 µs.
 * The first touch of a zone, and of every further four months in it, costs about 0.6 ms.
 *
 * @param instantMs - epoch milliseconds
 * @throws QuietHoursError `INVALID_INSTANT`, `INVALID_WALL_TIME`, `INVALID_TIME_ZONE`
 */
export function nextAllowed(instantMs: number, specs: QuietSpecs): number {
  checkInstant(instantMs)
  return leaveAll(toRules(specs), instantMs)
}

/**
 * The quiet instants of [fromMs, toMs) as sorted, disjoint intervals, the specs merged: about one interval a day
 * and spec. One that is under way at `fromMs` begins at `fromMs`; every other begins at its real start. Each ends
 * at its real end, also beyond `toMs`; that is Infinity where `nextAllowed` is.
 *
 * @param fromMs - epoch milliseconds
 * @param toMs - epoch milliseconds; at or before `fromMs` there are no intervals
 * @throws QuietHoursError `INVALID_INSTANT`, `INVALID_WALL_TIME`, `INVALID_TIME_ZONE`
 */
export function forbiddenIntervals(specs: QuietSpecs, fromMs: number, toMs: number): QuietInterval[] {
  checkInstant(fromMs)
  checkInstant(toMs)
  const rules = toRules(specs)
  const intervals: QuietInterval[] = []
  let t = fromMs
  while (t < toMs) {
    const from = enterAny(rules, t)
    if (from >= toMs) break
    t = leaveAll(rules, from)
    intervals.push({ from, to: t })
  }
  return intervals
}

/**
 * The quiet hours that leave exactly these hours free: `'08:00-21:00'` gives `{ from: '21:00', to: '08:00' }`.
 *
 * @param allowed - `HH:MM-HH:MM`, from the first time that is allowed to the first that no longer is
 * @throws QuietHoursError `INVALID_ALLOWED_HOURS`, also for equal times, which could mean all day or never
 */
export function allowedToQuiet(allowed: string): QuietHours {
  const [start = '', end = '', ...rest] = String(allowed).split('-')
  if (!WALL_TIME.test(start) || !WALL_TIME.test(end) || rest.length > 0) {
    throw new QuietHoursError(
      'INVALID_ALLOWED_HOURS',
      `${shown(allowed)} is not a range of wall times such as "08:00-21:00"`,
    )
  }
  if (start === end) {
    throw new QuietHoursError(
      'INVALID_ALLOWED_HOURS',
      `"${allowed}" begins where it ends, which could mean all day or never; leave it out to allow all day`,
    )
  }
  return { from: end, to: start }
}

/**
 * Milliseconds from midnight to this wall time: `'22:00'` gives 79,200,000.
 *
 * @param text - `HH:MM`, two digits each, 00:00 to 23:59
 * @throws QuietHoursError `INVALID_WALL_TIME`
 */
export function parseWallTime(text: string): number {
  if (typeof text !== 'string' || !WALL_TIME.test(text)) {
    throw new QuietHoursError(
      'INVALID_WALL_TIME',
      `${shown(text)} is not a wall time HH:MM from 00:00 to 23:59${text === '24:00' ? '; midnight is 00:00' : ''}`,
    )
  }
  // By character code, because this is on the way of every notification: no strings are made.
  const hour = text.charCodeAt(0) * 10 + text.charCodeAt(1) - 11 * DIGIT_0
  const minute = text.charCodeAt(3) * 10 + text.charCodeAt(4) - 11 * DIGIT_0
  return hour * HOUR_MS + minute * MINUTE_MS
}
