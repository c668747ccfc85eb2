/**
 * Makes decisions of the script's answers. For a subject that is one string the script answers the state as it was
 * before, and the code of the memory store makes the decision of it, so that both stores say the same and the script
 * makes no rows. For a subject that is too long to be sent the script makes the rows.
 */
import { type Decision, nobody, rowOf } from '../decision.ts'
import { LimitsError } from '../errors.ts'
import { leave } from '../forbidden.ts'
import type { BlockChange, Kind, Question } from '../store.ts'
import { settle } from '../verdict.ts'
import { entryOf } from './entry.ts'
import { EventLog } from './event-log.ts'
import { admitted, answered } from './fast-path.ts'
import { never } from './redis-wire.ts'
import { noEventLogs, Subject } from './subject.ts'

/** An answer in bytes, as both clients give it. */
export type Bytes = Uint8Array & { toString(encoding: 'utf8', start: number, end: number): string }

/** The answer to a block. */
export function readBlock(reply: Bytes): BlockChange {
  return { stood: reply[0] === 0x31, until: int(reply, 1, 7) }
}

/** The decision on a question, from the answer of the script. */
export function readDecision(question: Question, reply: Bytes): Decision {
  if (reply[0] === eventLogSign) return admittedDecision(question, reply)
  if (reply[0] === 0x72) return longDecision(question, reply)
  const now = int(reply, 1, 6)
  const at = int(reply, 7, 7)
  if (reply[0] === 0x71) return answeredDecision(question, reply, now)
  return generalDecision(question, reply, now, at, reply[stateStart - 1]! - 0x30)
}

const eventLogSign = 0x41
/** The first byte of an event log that is kept in runs. */
const runsSign = 0x52
const stateStart = 15

/** The state as it is now: what this call counted stands last. */
function admittedDecision({ plan, terms }: Question, reply: Bytes): Decision {
  const { weight } = terms
  const eventLog = new EventLog(nobody)
  eventLog.instants = log(reply, namesEnd(reply, 0), reply.length - 6 * weight)
  const now = int(reply, reply.length - 6, 6)
  return admitted(now, true, plan, weight, { eventLog, planLogs: noEventLogs })
}

function answeredDecision({ plan, terms }: Question, reply: Bytes, now: number): Decision {
  const eventLog = new EventLog(nobody)
  if (reply.length > stateStart) eventLog.instants = log(reply, namesEnd(reply, stateStart), reply.length)
  return answered(plan, terms.weight, { eventLog, planLogs: noEventLogs }, now)
}

function generalDecision(question: Question, reply: Bytes, now: number, at: number, done: number): Decision {
  const { kind, plan, id, terms } = question
  // The subject's own fast paths answer the same.
  const decision = readSubject(reply)[kind](plan, id!, terms, now)
  // A refused attempt that counts moves the instant that is answered, and the script knows nothing of it.
  const moved = kind === 'take' && done === 0 && plan.countRefused.length > 0
  const agrees = moved || decision.at === (at >= never ? Number.POSITIVE_INFINITY : at)
  const same = done === 0 || (decision.held && (done === 1) === (countsNow(kind) && decision.fired))
  if (agrees && same) return decision
  const found = `${kind} at ${decision.at}, and the script at ${at} (${done})`
  throw new LimitsError('STORE_STATE_INVALID', `the script and this library disagree: ${found}`)
}

function countsNow(kind: Kind): boolean {
  return kind !== 'reserve' && kind !== 'preview'
}

/** The decision on a subject that is too long to be sent: the script made its rows, and answers them in JSON. */
function longDecision({ kind, plan, terms }: Question, reply: Bytes): Decision {
  const [now, instant, done, flags, decider, block, ...rest] = JSON.parse(
    `[${reply.toString('utf8', 1, reply.length)}]`,
  )
  const blocks = block === 0 ? [] : [{ from: 0, to: block }]
  const finite = (value: number): number => (value >= never ? Number.POSITIVE_INFINITY : value)
  const rows = plan.rules.map((rule) => {
    const [used, remaining, available, reserved, freesAt, resetAt, admits] = rest.splice(0, 7)
    return rowOf(rule, used, remaining, available, reserved, finite(freesAt), resetAt, admits === 1)
  })
  const found = {
    repeated: (flags & 1) === 1,
    ownFired: (flags & 2) === 2,
    countsNow: done === 1,
    booked: (flags & 4) === 4,
    moved: (flags & 8) === 8,
    at: finite(instant),
    now,
    limit: plan.rules[decider - 1]?.limit,
    firstAt: leave([...terms.forbidden, ...blocks], Math.max(now, terms.notBefore)),
    evicted: rest,
    blockedUntil: block === 0 ? undefined : block,
  }
  return settle(kind, terms.firm, found, rows)
}

function readSubject(reply: Bytes): Subject {
  if (reply.length === stateStart) return new Subject('')
  if (reply[stateStart] === eventLogSign)
    return new Subject('', [readEventLog(reply, stateStart, reply.length)])
  const eventLogs: EventLog[] = []
  const byNumber = new Map<number, EventLog>()
  let at = stateStart + 6
  for (let left = int(reply, stateStart + 1, 3); left > 0; left -= 1) {
    const body = namesEnd(reply, at) + 10
    const inRuns = reply[at] === runsSign
    const sizeOf = (count: number): number => (inRuns ? 6 + 12 * count : 6 * count)
    const booked = body + sizeOf(int(reply, body - 8, 4))
    const end = booked + sizeOf(int(reply, body - 4, 4))
    const eventLog = readEventLog(reply, at, inRuns ? body : booked, body)
    byNumber.set(int(reply, body - 10, 2), eventLog)
    if (inRuns) {
      readRuns(reply, body, booked, (instant, count) => eventLog.insertFired(instant, count, instant))
      readRuns(reply, booked, end, (instant, count) => eventLog.insertBooked(instant, count))
    } else for (const instant of log(reply, booked, end)) eventLog.insertBooked(instant, 1)
    at = end
    eventLogs.push(eventLog)
  }
  const subject = new Subject('', eventLogs)
  while (at < reply.length) {
    const idEnd = reply.indexOf(idEndSign, at)
    const id = reply.toString('utf8', at + 1, idEnd)
    const from = idEnd + 1
    const next = reply.indexOf(idSign, from)
    at = next < 0 ? reply.length : next
    const homes = Array.from({ length: int(reply, from + 11, 2, 128) }, (_, index) =>
      byNumber.get(int(reply, from + 13 + 2 * index, 2, 128)),
    )
    const flags = reply[from + 10]!
    const own = homes.filter((eventLog) => eventLog !== undefined)
    const weight = int(reply, from + 7, 3, 128)
    subject.ids ??= new Map()
    subject.ids.set(id, entryOf(int(reply, from, 7, 128), weight, (flags & 1) === 1, flags >= 2, own))
  }
  return subject
}

function readEventLog(reply: Bytes, at: number, end: number, body = namesEnd(reply, at)): EventLog {
  const names: string[] = []
  const stop = namesEnd(reply, at)
  for (let pos = at + 12; pos < stop; ) {
    const length = reply[pos]! * 128 + reply[pos + 1]!
    names.push(reply.toString('utf8', pos + 2, pos + 2 + length))
    pos += 2 + length
  }
  const eventLog = new EventLog(names)
  eventLog.retained = int(reply, at + 1, 3, 128)
  eventLog.windowMsMax = int(reply, at + 4, 5, 128)
  eventLog.instants = log(reply, body, end)
  return eventLog
}

/** Finds the end of the names in the header of an event log that begins here. */
function namesEnd(reply: Bytes, at: number): number {
  return at + 12 + int(reply, at + 9, 3, 128)
}

/** Before an id, which is UTF-8 and does not hold it, and behind it. */
const idSign = 0xff
const idEndSign = 0xfe

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

/** Behind how many units left come instants, each with how many there were up to it. */
function readRuns(
  reply: Bytes,
  from: number,
  to: number,
  insert: (instant: number, count: number) => void,
): void {
  let before = int(reply, from, 6)
  for (let at = from + 6; at < to; at += 12) {
    const upTo = int(reply, at + 6, 6)
    insert(int(reply, at, 6), upTo - before)
    before = upTo
  }
}

/** Big endian. */
function int(reply: Bytes, from: number, length: number, base = 256): number {
  let value = 0
  for (let at = from; at < from + length; at += 1) value = value * base + reply[at]!
  return value
}
