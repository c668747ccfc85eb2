/**
 * One notification on its way to a decision, and the pure parts of deciding: what a booking means, which state
 * follows, what is written down. The shell around it (decide.ts) asks the limits and the store.
 */
import type {
  Channel,
  Decision,
  DelayReason,
  Digest,
  Notification,
  Outcome,
  Patch,
  Reason,
  Recipient,
  RuleReport,
  Status,
  SuppressionReason,
  TimelineEvent,
} from '../model.ts'
import { limitName } from '../policy/counter.ts'
import type { Booking } from '../ports.ts'
import type { HoursReason } from './hours.ts'

export interface Case {
  /** As it would be on record; the verdict is still to come. */
  readonly notification: Notification
  readonly person: Recipient | null
  verdict?: Verdict | undefined
}

export interface Verdict {
  readonly status: Status
  readonly dueAt: number
  readonly decision: Decision
  readonly detail?: string
  readonly patch?: Patch
  /** The digest that it joins, and whether this is its first item. */
  readonly digest?: { readonly digest: Digest; readonly opens: boolean }
  /** It holds an instant in the limits, which is to be given back when nothing comes of it. */
  readonly booked: boolean
  /** It holds its fingerprint. */
  readonly claimed?: boolean
}

export function ruleReports(booking: Booking): readonly RuleReport[] {
  return booking.rules.map(({ limit, window, used, max, remaining, freesAt, admits }) => ({
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
export function bookedVerdict(input: {
  readonly policyVersion: string
  readonly now: number
  readonly booking: Booking
  /** The forbidden hours that gave the instant, where they did. */
  readonly hours: HoursReason | undefined
  /** The channel that carries it instead, and the limit that wanted so. */
  readonly fallback?: { readonly channel: Channel; readonly limit: string }
}): Verdict {
  const { now, booking, fallback } = input
  const { at } = booking
  const rules = ruleReports(booking)
  let outcome: Outcome = at <= now ? 'send' : 'delay'
  let reason: DelayReason | undefined
  let limit: string | undefined
  if (at > booking.firstAt && booking.limit !== undefined) {
    reason = 'recipient_limit'
    limit = limitName(booking.limit)
  } else if (at > now) {
    reason = input.hours ?? 'send_at'
  }
  if (fallback !== undefined) {
    outcome = 'fallback'
    limit ??= fallback.limit
  }
  return {
    status: at <= now ? 'queued' : 'scheduled',
    dueAt: at,
    decision: {
      outcome,
      ...(reason === undefined ? {} : { reason }),
      ...(limit === undefined ? {} : { limit }),
      at,
      policyVersion: input.policyVersion,
      rules,
    },
    booked: true,
  }
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
  const events: TimelineEvent[] = [
    { at: notification.createdAt, status: 'accepted' },
    eventOf(notification.createdAt, verdict),
  ]
  return {
    ...notification,
    ...verdict.patch,
    ...patchOf(verdict),
    status: verdict.status,
    timeline: events,
  }
}

export function eventOf(now: number, verdict: Verdict): TimelineEvent {
  const reason: Reason | undefined = verdict.decision.reason
  return {
    at: now,
    status: verdict.status,
    ...(reason === undefined ? {} : { reason }),
    ...(verdict.detail === undefined ? {} : { detail: verdict.detail }),
  }
}

export function patchOf(verdict: Verdict): Patch {
  return {
    ...verdict.patch,
    dueAt: verdict.dueAt,
    decision: verdict.decision,
    ...(verdict.digest === undefined ? {} : { digestId: verdict.digest.digest.id }),
  }
}
