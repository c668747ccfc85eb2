/**
 * A candidate is a notification on its way to be admitted (admit.ts), or to be decided anew (redecision.ts):
 *
 *     candidate ── throttle, evaluate ──► verdict ── commit ──► committed
 *         ▲                                  │
 *         └──── conflict: decided anew ◄─────┘
 *
 * This file holds the pure parts: the verdict that follows from a reservation, and the fields and events that it writes.
 * evaluate.ts asks the limits and the store. Whatever a verdict takes stands on the undo list of its try (undo.ts).
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
import { revisionOf } from '../model.ts'
import { limitName } from '../policy/counter.ts'
import type { Reservation } from '../ports.ts'
import type { UndoList } from '../undo.ts'
import type { ForbiddenHours, HoursReason } from './quiet-hours.ts'

export type Mutable<T> = { -readonly [K in keyof T]: T[K] }

export interface Candidate {
  /** The notification as it would be stored, without the verdict. */
  readonly notification: Notification
  readonly recipient: Recipient | null
  /** Content to be stored with it (content.ts). All candidates of a batch share one object. */
  readonly content?: SharedContent
  verdict?: Verdict | undefined
}

/** The digest that an item joins. */
export interface JoinedDigest {
  readonly digest: Digest
  /**
   * True where the digest is not known to be stored: then each commit of items opens it, so that none depends on another
   * commit.
   */
  readonly opens: boolean
}

export interface Verdict {
  readonly status: Status
  readonly dueAt: number
  readonly decision: Decision
  readonly detail?: string
  readonly patch?: Patch
  /** The digest that it joins; `opens` where the commit has to open it. */
  readonly digest?: JoinedDigest
  /** It holds a reservation in the limits. */
  readonly reserved: boolean
  /** It has no reservation and goes on the waiting lists: a slot that becomes free may come before its expiry. */
  readonly waitlisted?: boolean
}

/** Options of an evaluation. */
export interface EvaluationMode {
  /** The notification was evaluated before: deduplication was done when it was accepted. */
  readonly again?: boolean
  /** Limits that would drop, digest or fall back only delay it: used for dead letters and single digest items. */
  readonly waitOnly?: boolean
  /** The notification waited before, so it is not held up while other notifications of its subjects move up. */
  readonly waited?: boolean
  /**
   * Resolves to true if another writer has committed a reservation of the notification meanwhile: a refused commit does not
   * give it back.
   */
  readonly isHeldElsewhere?: (notification: Notification) => Promise<boolean>
}

/** One evaluation: its options, its instant, its policy, and the list that releases what it takes. */
export interface Evaluation extends EvaluationMode {
  readonly now: number
  /** The policy in force when it began: its commit is refused where another one is in force by then. */
  readonly policyVersion: string
  /** Absent in a preview, which reserves nothing, takes no fingerprint and opens no digest. */
  readonly undo?: UndoList
}

/**
 * A pass may be this far from the acceptance on record, ms: half of what windows are kept longer. It is earlier where the
 * clock of a server that counts for several processes is behind.
 */
const passSlackMs = 10

/** Notes the instant at which a candidate passed the limits of its tenant and module: a restart counts it there again. */
export function notePass({ notification }: Candidate, at: number): void {
  if (Math.abs(at - notification.createdAt) > passSlackMs)
    (notification as Mutable<Notification>).turnedAt = at
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
    reserved: false,
  }
}

/** Builds the verdict of a reservation: queued now, or scheduled for the reserved time with the reason of the delay. */
export function reservedVerdict(input: {
  readonly policyVersion: string
  /** Read after the answer of the limits: they may have looked at the clock after the decision began. */
  readonly now: number
  /** The instant that was asked for. A later one that nothing explains is that of a clock which is ahead: no delay. */
  readonly notBefore?: number
  readonly reservation: Reservation
  /** The quiet or legal hours that set the time; undefined where something else did. */
  readonly forbiddenHours: HoursReason | undefined
  /** The fallback channel, and the limit that asked for it. */
  readonly fallback?: { readonly channel: Channel; readonly limit: string }
}): Verdict {
  const { policyVersion, notBefore, reservation, forbiddenHours, fallback } = input
  const { at, firstAt } = reservation
  const isUnexplained =
    reservation.limit === undefined &&
    forbiddenHours === undefined &&
    at === firstAt &&
    at > (notBefore ?? at)
  const now = isUnexplained ? Math.max(input.now, at) : input.now
  let reason: DelayReason | undefined
  let limit: string | undefined
  if (at > firstAt && reservation.limit !== undefined) {
    reason = 'recipient_limit'
    limit = limitName(reservation.limit)
  } else if (at > now) {
    reason = forbiddenHours ?? 'send_at'
  }
  limit ??= fallback?.limit
  const outcome: Outcome = fallback !== undefined ? 'fallback' : at <= now ? 'send' : 'delay'
  const decision: Mutable<Decision> = { outcome, at, policyVersion, rules: ruleReports(reservation) }
  if (reason !== undefined) decision.reason = reason
  if (limit !== undefined) decision.limit = limit
  return { status: at <= now ? 'queued' : 'scheduled', dueAt: at, decision, reserved: true }
}

/** Builds the verdict of a notification that waits without a reservation: the limits are asked when it is due. */
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
    reserved: false,
  }
}

/** Writes the verdict into a new candidate's notification, and returns it as it is stored when it is accepted. */
export function accepted(candidate: Candidate): Notification {
  // In place, since no other code has the notification yet: a copy of all fields costs 1 µs a message.
  const result: Mutable<Notification> = candidate.notification
  const verdict = candidate.verdict!
  if (verdict.patch !== undefined) Object.assign(result, verdict.patch)
  if (verdict.digest !== undefined) result.digestId = verdict.digest.digest.id
  result.dueAt = verdict.dueAt
  result.decision = verdict.decision
  result.status = verdict.status
  const { createdAt } = result
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

/** Schedules a notification that expires before its `sendAt` or the end of a hold for its expiry, without a reservation. */
export function expiresBeforeItMayLeave(
  notification: Notification,
  { now, policyVersion }: { readonly now: number; readonly policyVersion: string },
  forbiddenHours: Pick<ForbiddenHours, 'heldUntil' | 'heldBecause'>,
): Verdict | undefined {
  const { expiresAt, sendAt = 0 } = notification
  if (expiresAt === undefined) return undefined
  const detail = 'expires before it may leave'
  if (expiresAt <= Math.max(now, sendAt))
    return undecidedVerdict(policyVersion, expiresAt, 'send_at', { detail })
  const heldUntil = forbiddenHours.heldUntil(notification) ?? 0
  if (expiresAt > heldUntil) return undefined
  // It waits for an earlier end of the hold, too.
  return {
    ...undecidedVerdict(policyVersion, expiresAt, forbiddenHours.heldBecause(notification), {
      at: heldUntil,
      detail,
    }),
    waitlisted: true,
  }
}

/** True if no call may have been made for it: it waits for its instant, in a digest or in the queue. */
export const hasNotLeft = ({ status }: Pick<Notification, 'status'>): boolean =>
  status === 'scheduled' || status === 'digesting' || status === 'queued'

/** Returns the requests whose notifications no other writer holds. */
export async function withoutHeld<Request extends Pick<Candidate, 'notification'>>(
  requests: readonly Request[],
  isHeldElsewhere: EvaluationMode['isHeldElsewhere'],
): Promise<readonly Request[]> {
  if (isHeldElsewhere === undefined) return requests
  const left: Request[] = []
  for (const request of requests) if (!(await isHeldElsewhere(request.notification))) left.push(request)
  return left
}

/** True if another writer has moved a notification on since, to where it holds an instant of its limits. */
export function hasBooked(
  recorded: Notification | undefined,
  before: Pick<Notification, 'timeline' | 'omitted'>,
): boolean {
  if (recorded === undefined || revisionOf(recorded) <= revisionOf(before)) return false
  const { status, undecided } = recorded
  return undecided !== true && (status === 'scheduled' || status === 'queued' || status === 'sending')
}
