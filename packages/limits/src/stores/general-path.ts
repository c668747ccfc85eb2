/**
 * The general path of a question through a subject in memory: with bookings, with instants in the future, with
 * forbidden hours, with an id that is known. In order: the own entry comes out, the rules are asked without it,
 * an entry that counts now is inserted, the rows of the decision are made, an entry that is booked is inserted.
 */
import { type Decision, type RuleRow, rowOf } from '../decision.ts'
import { leave } from '../forbidden.ts'
import type { Plan } from '../plan.ts'
import {
  type AnyLog,
  countIn,
  countUntil,
  earliest,
  type Free,
  findFree,
  instantAt,
  roomAt,
} from '../rolling-window.ts'
import type { Kind, Terms } from '../store.ts'
import { admitsAt, decidingLimit, refuserOf, settle } from '../verdict.ts'
import { entryOf } from './entry.ts'
import type { EventLog } from './event-log.ts'
import { type Eviction, makeRoom } from './eviction.ts'
import type { SubjectEntries } from './subject-entries.ts'

export function generalPath(
  kind: Kind,
  subject: SubjectEntries,
  plan: Plan,
  id: string | undefined,
  asked: Terms,
  now: number,
): Decision {
  const blockedUntil = subject.blockedUntil(now)
  // A block is one more forbidden interval.
  const terms =
    blockedUntil === undefined
      ? asked
      : { ...asked, forbidden: [...asked.forbidden, { from: 0, to: blockedUntil }] }
  const { eventLog, eventLogs } = subject
  const planLogs = eventLog === undefined ? subject.planLogs : plan.streams.map(() => eventLog)
  const own = id === undefined ? undefined : subject.ids?.get(id)
  if (own !== undefined) subject.takeOut(own)
  const books = kind === 'reserve' || kind === 'preview'
  // A known id gets the answer that it got before.
  const repeated = own !== undefined && (books || (kind === 'take' && own.fired))
  const weight = own?.weight ?? terms.weight
  const start = Math.max(now, terms.notBefore)
  const firstAt = leave(terms.forbidden, start)
  const used = plan.rules.map((rule) => countIn(planLogs[rule.stream]!.counted, rule.windowMs, now))

  let logs = logsOf(planLogs, kind)
  const free = freeOf(planLogs, kind, weight)
  let admits = admitsAt(plan, logs, weight, firstAt)
  let refuser = books && !repeated ? refuserOf(plan, admits) : undefined
  let at = firstAt
  let eviction: Eviction | undefined
  if (repeated) at = own.at
  else if (kind === 'force') at = now
  else if (admits.includes(false)) {
    at = earliest(plan.rules, free, terms.forbidden, firstAt)
    if (books && terms.priority === 'high') {
      const admitting = (instant: number): readonly boolean[] =>
        admitsAt(plan, logsOf(planLogs, kind), weight, instant)
      eviction = makeRoom(subject, plan, planLogs, terms, free, admitting, {
        start,
        firstAt,
        at: refuser === undefined ? at : Number.POSITIVE_INFINITY,
      })
      // Entries went out and back, even where no room was made, and logs are valid until the next change only.
      logs = logsOf(planLogs, kind)
    }
    if (eviction !== undefined) {
      at = eviction.at
      admits = admitsAt(plan, logs, weight, firstAt)
      refuser = undefined
    }
  }

  const countsNow = kind === 'force' || ((kind === 'take' || kind === 'fire') && !repeated && at === now)
  const booked =
    kind === 'fire'
      ? !countsNow && at < Number.POSITIVE_INFINITY
      : books && at < Infinity && at - start <= terms.horizonMs && refuser === undefined
  if (kind === 'take' && !countsNow && !repeated && plan.countRefused.length > 0) {
    for (const eventLog of new Set(plan.countRefused.map((stream) => planLogs[stream]!)))
      eventLog.insertFired(now, weight, now)
    logs = logsOf(planLogs, kind)
    at = earliest(plan.rules, free, terms.forbidden, now)
  }
  const deciding =
    refuser ?? (at > (repeated ? now : firstAt) ? decidingLimit(plan, logs, weight, at) : undefined)

  let entry = own
  if (countsNow || (booked && !repeated && kind !== 'preview')) {
    const low = own?.low ?? terms.priority === 'low'
    entry = entryOf(at, weight, countsNow || (books && terms.firm), low, eventLogs)
  } else if (kind === 'fire') entry = undefined

  const counted = entry?.fired === true && entry.at <= now
  if (entry !== undefined && counted) subject.putBack(entry, now)
  const rows = rowsOf(plan, planLogs, used, admits, now)
  if (entry !== undefined && !counted) subject.putBack(entry, now)
  if (id !== undefined && entry !== own) {
    if (entry === undefined) subject.forgetId(id)
    else subject.remember(id, entry, now)
  }
  eviction?.finish(kind === 'reserve')

  const ownFired = own?.fired === true
  return settle(
    kind,
    terms.firm,
    {
      repeated,
      ownFired,
      countsNow,
      booked,
      moved: countsNow && ownFired,
      at,
      now,
      limit: deciding,
      firstAt,
      evicted: eviction?.ids ?? [],
      blockedUntil,
    },
    rows,
  )
}

/** At its release an entry is tested against what has gone only: bookings behind it must not block it. */
function logsOf(planLogs: readonly EventLog[], kind: Kind): readonly AnyLog[] {
  return planLogs.map((eventLog) => (kind === 'fire' ? eventLog.counted : eventLog.all()))
}

/** Finds the same on the logs of `logsOf`. */
function freeOf(planLogs: readonly EventLog[], kind: Kind, weight: number): Free {
  return ({ stream, max, windowMs }, from) =>
    kind === 'fire'
      ? findFree(planLogs[stream]!.counted, max, windowMs, weight, from)
      : planLogs[stream]!.freeFrom(max, windowMs, weight, from)
}

function rowsOf(
  plan: Plan,
  planLogs: readonly EventLog[],
  used: readonly number[],
  admits: readonly boolean[],
  now: number,
): RuleRow[] {
  return plan.rules.map((rule, index) => {
    const { stream, max, maxWritten, windowMs } = rule
    const { counted: fired, booked } = planLogs[stream]!
    const gone = countUntil(fired, now - windowMs)
    const past = countUntil(fired, now)
    const ahead = fired.length - past
    return rowOf(
      rule,
      used[index]!,
      Math.max(0, maxWritten - (past - gone)),
      roomAt(planLogs[stream]!.all(), maxWritten, windowMs, now),
      booked.length - countUntil(booked, now - windowMs) + ahead,
      planLogs[stream]!.freeFrom(max, windowMs, 1, now),
      gone < past ? instantAt(fired, gone) + windowMs : now,
      admits[index]!,
    )
  })
}
