/**
 * What travels to the script and back. Plans and questions go as text whose numbers have digits of base 128: they
 * are bytes to the script and valid UTF-8 to every client, and a text costs a client less than a buffer. Answers are
 * bytes: the state as it was before, from which the decision is drawn up here by the code that serves the memory
 * store, so that both say the same and the script makes no rows.
 */
import type { Decision } from '../decision.ts'
import { LimitsError } from '../errors.ts'
import type { Plan } from '../plan.ts'
import { type BlockChange, type Kind, type Question, retainedMin, type Terms } from '../store.ts'
import { Entry } from './entry.ts'
import { Lane } from './lane.ts'
import { admitted, answered } from './quick.ts'
import { Subject } from './subject.ts'

/** Instants have six bytes: up to the year 10,889. */
const instantMax = 2 ** 48 - 1
/** What the script takes for infinity. */
const never = 9e15

/** What the script calls the questions. */
export const letters = {
  take: 't',
  check: 'c',
  force: 'F',
  fire: 'f',
  reserve: 'r',
  preview: 'p',
  cancel: 'x',
  restore: 's',
  forget: 'd',
  has: 'h',
  block: 'b',
} as const

function digits(value: number, count: number): string {
  let text = ''
  for (let rest = value, place = 0; place < count; place += 1, rest = Math.floor(rest / 128)) {
    text = String.fromCharCode(rest % 128) + text
  }
  return text
}

const utf8 = new TextEncoder()
const written = new WeakMap<Plan, WrittenPlan>()

export interface WrittenPlan {
  /** How a subject that knows this plan only begins in the store. */
  readonly header: string
  readonly rules: string
  /** The longest window, ms. */
  readonly longestMs: number
}

/**
 * A plan as the script reads it. The header: what is to be retained, and the streams in the order of their names.
 * The rules: how refusals count, those that decide with the smallest count first for the quick way, and all of them
 * in their own order with their streams.
 */
export function writePlan(plan: Plan): WrittenPlan {
  const known = written.get(plan)
  if (known !== undefined) return known
  const streams = plan.streams.toSorted((a, b) => (a < b ? -1 : 1))
  const names = streams.map((name) => digits(utf8.encode(name).length, 2) + name).join('')
  const retained = Math.max(retainedMin, ...plan.rules.map(({ maxWritten }) => 2 * maxWritten))
  const longestMs = Math.max(0, ...plan.rules.map(({ windowMs }) => windowMs))
  const header = `A${digits(retained, 3)}${digits(longestMs, 5)}${digits(utf8.encode(names).length, 3)}${names}`
  const made = { header, rules: writeRules(plan, streams), longestMs }
  written.set(plan, made)
  return made
}

function writeRules({ rules, streams, countRefused }: Plan, sorted: readonly string[]): string {
  const seat = (index: number): string => digits(sorted.indexOf(streams[index]!), 3)
  const deciding = rules.filter(({ max }) => max < Number.MAX_SAFE_INTEGER).sort((a, b) => a.max - b.max)
  return [
    countRefused.length === 0 ? '0' : countRefused.length < streams.length ? '1' : '2',
    digits(deciding.length, 3),
    ...deciding.map(({ max, windowMs }) => digits(max, 3) + digits(windowMs, 5)),
    digits(rules.length, 3),
    ...rules.map(({ stream, max, maxWritten, windowMs, refuse }) => {
      const flags = (refuse ? 1 : 0) + (max < Number.MAX_SAFE_INTEGER ? 0 : 2)
      return seat(stream) + digits(maxWritten, 3) + digits(windowMs, 5) + digits(flags, 1)
    }),
    digits(countRefused.length, 3),
    ...countRefused.map(seat),
  ].join('')
}

/** Kind and weight; a sign behind them keeps what needs it from the quick way. */
export function writeQuestion({ kind, id, terms }: Question): string {
  if (kind === 'take' && id === undefined && terms.weight === 1) return takeOne
  const isQuick = (kind === 'take' || kind === 'check') && id === undefined
  return letters[kind] + digits(terms.weight, 3) + (isQuick ? '' : '+')
}

const takeOne = letters.take + digits(1, 3)

/** Whatever is beyond the last instant that can be kept is never. @throws LimitsError `INVALID_ARGUMENT` */
export function boundedTerms(terms: Terms): Terms {
  if (terms.notBefore > instantMax) {
    throw new LimitsError(
      'INVALID_ARGUMENT',
      `notBefore is ${terms.notBefore}: Redis keeps 6 bytes, up to 10889`,
    )
  }
  if (terms.forbidden.every(({ to, resumeAt = to }) => resumeAt <= instantMax)) return terms
  const bound = (instant: number): number => (instant > instantMax ? Number.POSITIVE_INFINITY : instant)
  const forbidden = terms.forbidden.map(({ from, to, resumeAt = to }) => ({
    from,
    to: bound(to),
    resumeAt: bound(resumeAt),
  }))
  return { ...terms, forbidden }
}

export function writeTerms({ notBefore, horizonMs, priority, firm, forbidden }: Terms): string {
  const finite = (value: number): number => Math.max(-never, Math.min(never, value))
  const horizon = horizonMs < never ? horizonMs : 2 * never
  const intervals = forbidden.flatMap(({ from, to, resumeAt = to }) => [from, to, resumeAt].map(finite))
  return JSON.stringify([notBefore, horizon, priority[0], firm, ...intervals])
}

/** The answer to a block. */
export function readBlock(reply: Bytes): BlockChange {
  return { stood: reply[0] === 0x31, until: int(reply, 1, 7) }
}

/** An answer in bytes, as both clients give it. */
export type Bytes = Uint8Array & { toString(encoding: 'utf8', start: number, end: number): string }

/** The decision on a question, from the answer of the script. */
export function readDecision(question: Question, reply: Bytes): Decision {
  if (reply[0] === laneSign) return admittedDecision(question, reply)
  const now = int(reply, 1, 6)
  const at = int(reply, 7, 7)
  if (reply[0] === 0x71) return answeredDecision(question, reply, now, at)
  return generalDecision(question, reply, now, at, reply[stateStart - 1]! - 0x30)
}

const laneSign = 0x41
const stateStart = 15
const unnamed: readonly string[] = []

/** The state as it is now: what this call counted stands last. */
function admittedDecision({ plan, terms }: Question, reply: Bytes): Decision {
  const { weight } = terms
  const lane = new Lane(unnamed)
  lane.fired = log(reply, namesEnd(reply, 0), reply.length - 6 * weight)
  const now = int(reply, reply.length - 6, 6)
  return admitted(now, true, plan, weight, { lane, seats: noSeats })
}

const noSeats: readonly Lane[] = []

function answeredDecision({ plan, terms }: Question, reply: Bytes, now: number, at: number): Decision {
  const lane = new Lane(unnamed)
  if (reply.length > stateStart) lane.fired = log(reply, namesEnd(reply, stateStart), reply.length)
  const instant = at >= never ? Number.POSITIVE_INFINITY : at
  return answered(instant, plan, terms.weight, { lane, seats: noSeats }, now)
}

function generalDecision(question: Question, reply: Bytes, now: number, at: number, done: number): Decision {
  const { kind, plan, id, terms } = question
  const decision = readSubject(reply).decide(kind, plan, id, terms, now)
  // A refused attempt that counts moves the instant that is answered, and the script knows nothing of it.
  const moved = kind === 'take' && done === 0 && plan.countRefused.length > 0
  const agrees = moved || decision.at === (at >= never ? Number.POSITIVE_INFINITY : at)
  const same = done === 0 || (decision.held && (done === 1) === (countsNow(kind) && decision.fired))
  if (agrees && same) return decision
  const found = `${kind} at ${decision.at}, and the script at ${at} (${done})`
  throw new LimitsError('STORE_UNAVAILABLE', `the script and this library disagree: ${found}`)
}

function countsNow(kind: Kind): boolean {
  return kind !== 'reserve' && kind !== 'preview'
}

function readSubject(reply: Bytes): Subject {
  if (reply.length === stateStart) return new Subject()
  if (reply[stateStart] === laneSign) return new Subject([readLane(reply, stateStart, reply.length)])
  const lanes: Lane[] = []
  let at = stateStart + 4
  for (let left = int(reply, stateStart + 1, 3); left > 0; left -= 1) {
    const body = namesEnd(reply, at) + 8
    const booked = body + 6 * int(reply, body - 8, 4)
    const lane = readLane(reply, at, booked, body)
    at = booked + 6 * int(reply, body - 4, 4)
    for (const instant of log(reply, booked, at)) lane.insertBooked(instant, 1)
    lanes.push(lane)
  }
  const subject = new Subject(lanes)
  const count = int(reply, at, 4)
  if (count > 0) subject.ids = readIds(reply, at + 4, count, lanes)
  return subject
}

function readLane(reply: Bytes, at: number, end: number, body = namesEnd(reply, at)): Lane {
  const names: string[] = []
  const stop = namesEnd(reply, at)
  for (let pos = at + 12; pos < stop; ) {
    const length = reply[pos]! * 128 + reply[pos + 1]!
    names.push(reply.toString('utf8', pos + 2, pos + 2 + length))
    pos += 2 + length
  }
  const lane = new Lane(names)
  lane.retained = int(reply, at + 1, 3, 128)
  lane.windowMsMax = int(reply, at + 4, 5, 128)
  lane.fired = log(reply, body, end)
  return lane
}

/** Where the names of a lane end whose header begins here. */
function namesEnd(reply: Bytes, at: number): number {
  return at + 12 + int(reply, at + 9, 3, 128)
}

function readIds(reply: Bytes, start: number, count: number, lanes: readonly Lane[]): Map<string, Entry> {
  const ids = new Map<string, Entry>()
  let at = start
  for (let left = count; left > 0; left -= 1) {
    const end = at + 2 + int(reply, at, 2)
    const id = reply.toString('utf8', at + 2, end)
    const flags = reply[end + 9]!
    const homes = int(reply, end + 10, 2)
    const own = Array.from({ length: homes }, (_, index) => lanes[int(reply, end + 12 + 2 * index, 2)]!)
    ids.set(id, new Entry(int(reply, end, 6), int(reply, end + 6, 3), (flags & 1) === 1, flags >= 2, own))
    at = end + 12 + 2 * homes
  }
  return ids
}

function log(reply: Bytes, from: number, to: number): number[] {
  const instants: number[] = []
  for (let at = from; at < to; at += 6) {
    const high = reply[at]! * 256 + reply[at + 1]!
    const low =
      ((reply[at + 2]! << 24) | (reply[at + 3]! << 16) | (reply[at + 4]! << 8) | reply[at + 5]!) >>> 0
    instants.push(high * 4_294_967_296 + low)
  }
  return instants
}

/** Big endian. */
function int(reply: Bytes, from: number, length: number, base = 256): number {
  let value = 0
  for (let at = from; at < from + length; at += 1) value = value * base + reply[at]!
  return value
}
