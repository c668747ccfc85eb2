/**
 * One notification on its way to a decision, and the pure parts of deciding: what a booking means, which state
 * follows, what is written down. The shell around it (evaluate.ts) asks the limits and the store.
 */
import type {
  Channel,
  Decision,
  DelayReason,
  Digest,
  Notification,
  Outcome,
  Patch,
  Recipient,
  RuleReport,
  SharedContent,
  Status,
  SuppressionReason,
  TimelineEvent,
} from '../model.ts'
import { limitName } from '../policy/counter.ts'
import type { Reservation } from '../ports.ts'
import type { HoursReason } from './quiet-hours.ts'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

export interface Candidate {
  /** As it would be on record; the verdict is still to come. */
  readonly notification: Notification
  readonly recipient: Recipient | null
  /** What is to be on record with it: see content.ts. Those of a batch have one object. */
  readonly content?: SharedContent
  verdict?: Verdict | undefined
}

export interface Verdict {
  readonly status: Status
  readonly dueAt: number
  readonly decision: Decision
  readonly detail?: string
  readonly patch?: Patch
  /** The digest that it joins, which its commit may have to open. */
  readonly digest?: { readonly digest: Digest; readonly opens: boolean }
  /** It holds an instant in the limits, which is to be given back when nothing comes of it. */
  readonly booked: boolean
  /** It holds none, and would leave before its end where a place became free: it goes on the waiting lists. */
  readonly waitlisted?: boolean
  /** It holds its fingerprint. */
  readonly claimed?: boolean
  /** Its refusal counts in limits, which is to be taken back when nothing comes of it. */
  readonly countsRefusal?: boolean
}

/** How cases are decided. */
export interface EvaluationMode {
  /** Books nothing, takes no fingerprint, opens no digest. */
  readonly dry?: boolean
  /** It was deduplicated when it was accepted. */
  readonly again?: boolean
  /** Limits that would drop, digest or fall back make it wait instead: dead letters, items sent on their own. */
  readonly patient?: boolean
  /** It waited before, and is not held up while others of its subjects move up. */
  readonly waited?: boolean
}

export function ruleReports(reservation: Reservation): readonly RuleReport[] {
  return reservation.rules.map(({ limit, window, used, max, remaining, freesAt, admits }) => ({
    limit: limitName(limit),
    window,
    used,
    max,
    remaining,
    freesAt: Number.isFinite(freesAt) ? freesAt : null,
    admits,
  }))
}

export function suppressed(
  policyVersion: string,
  now: number,
  reason: SuppressionReason,
  more: { readonly limit?: string; readonly rules?: readonly RuleReport[]; readonly detail?: string } = {},
): Verdict {
  return {
    status: 'suppressed',
    dueAt: now,
    decision: {
      outcome: 'suppress',
      reason,
      ...(more.limit === undefined ? {} : { limit: more.limit }),
      policyVersion,
      rules: more.rules ?? [],
    },
    ...(more.detail === undefined ? {} : { detail: more.detail }),
    booked: false,
  }
}

/** What a held instant means: it leaves now, or at that instant and for which reason. */
export function reservedVerdict(input: {
  readonly policyVersion: string
  readonly now: number
  readonly reservation: Reservation
  /** The forbidden hours that gave the instant, where they did. */
  readonly forbiddenHours: HoursReason | undefined
  /** The channel that carries it instead, and the limit that wanted so. */
  readonly fallback?: { readonly channel: Channel; readonly limit: string }
}): Verdict {
  const { now, reservation, fallback } = input
  const { at } = reservation
  const rules = ruleReports(reservation)
  let outcome: Outcome = at <= now ? 'send' : 'delay'
  let reason: DelayReason | undefined
  let limit: string | undefined
  if (at > reservation.firstAt && reservation.limit !== undefined) {
    reason = 'recipient_limit'
    limit = limitName(reservation.limit)
  } else if (at > now) {
    reason = input.forbiddenHours ?? 'send_at'
  }
  if (fallback !== undefined) {
    outcome = 'fallback'
    limit ??= fallback.limit
  }
  const decision: Mutable<Decision> = { outcome, at, policyVersion: input.policyVersion, rules }
  if (reason !== undefined) decision.reason = reason
  if (limit !== undefined) decision.limit = limit
  return { status: at <= now ? 'queued' : 'scheduled', dueAt: at, decision, booked: true }
}

/** It waits without an instant in the limits: they are asked when it is due. */
export function undecidedVerdict(
  policyVersion: string,
  dueAt: number,
  reason: DelayReason,
  more: {
    readonly at?: number
    readonly limit?: string
    readonly rules?: readonly RuleReport[]
    readonly detail?: string
  } = {},
): Verdict {
  return {
    status: 'scheduled',
    dueAt,
    decision: {
      outcome: 'delay',
      reason,
      ...(more.limit === undefined ? {} : { limit: more.limit }),
      at: more.at ?? dueAt,
      policyVersion,
      rules: more.rules ?? [],
    },
    patch: { undecided: true },
    ...(more.detail === undefined ? {} : { detail: more.detail }),
    booked: false,
  }
}

/** The notification with its verdict, as a new one that was just accepted. */
export function accepted(notification: Notification, verdict: Verdict): Notification {
  // One copy, and then field by field: each further `...` walks through all fields, 1 µs a message.
  const result: Mutable<Notification> = { ...notification }
  if (verdict.patch !== undefined) Object.assign(result, verdict.patch)
  if (verdict.digest !== undefined) result.digestId = verdict.digest.digest.id
  result.dueAt = verdict.dueAt
  result.decision = verdict.decision
  result.status = verdict.status
  const { createdAt } = notification
  result.timeline = [{ at: createdAt, status: 'accepted' }, eventOf(createdAt, verdict)]
  return result
}

export function eventOf(now: number, verdict: Verdict): TimelineEvent {
  const event: Mutable<TimelineEvent> = { at: now, status: verdict.status }
  if (verdict.decision.reason !== undefined) event.reason = verdict.decision.reason
  if (verdict.detail !== undefined) event.detail = verdict.detail
  return event
}

export function patchOf(verdict: Verdict): Patch {
  return {
    ...verdict.patch,
    dueAt: verdict.dueAt,
    decision: verdict.decision,
    ...(verdict.digest === undefined ? {} : { digestId: verdict.digest.digest.id }),
  }
}
