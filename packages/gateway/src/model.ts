/**
 * The words of Sluice: what a notification is, which states it goes through, what a decision says.
 * Everything here is data and pure functions over it; the rest of the gateway moves these values about.
 */

import type { Content, ContentRef, DraftedContent, JsonObject } from './content.ts'
import { shortened, timelineMax } from './timeline.ts'

export type { Content, ContentRef, JsonObject, JsonValue, Payload, SharedContent } from './content.ts'

export const channels = ['email', 'sms', 'push', 'telegram', 'slack', 'webhook', 'websocket'] as const
export type Channel = (typeof channels)[number]

export const priorities = ['critical', 'high', 'normal', 'low'] as const
export type Priority = (typeof priorities)[number]

/** The field of a recipient that holds the address for a channel; `websocket` is addressed by the id itself. */
export const addressField = {
  email: 'email',
  sms: 'phone',
  push: 'pushToken',
  telegram: 'telegramChatId',
  slack: 'slackChannel',
  webhook: 'webhookUrl',
  websocket: 'id',
} as const satisfies Record<Channel, keyof RecipientFields>

export type Status =
  | 'accepted'
  | 'scheduled'
  | 'digesting'
  | 'queued'
  | 'sending'
  | 'delivered'
  | 'suppressed'
  | 'merged'
  | 'failed'
  | 'cancelled'
  | 'expired'
  | 'dead'

/**
 * The legal changes of state. A state with no successor is final; `dead` is not final: it leaves by redrive,
 * by cancellation or by its own expiry.
 */
export const transitions = {
  accepted: ['scheduled', 'digesting', 'queued', 'suppressed', 'expired'],
  scheduled: ['scheduled', 'queued', 'digesting', 'suppressed', 'cancelled', 'expired', 'dead'],
  digesting: ['digesting', 'merged', 'scheduled', 'queued', 'suppressed', 'cancelled', 'expired'],
  queued: ['sending', 'scheduled', 'digesting', 'queued', 'suppressed', 'cancelled', 'expired', 'dead'],
  sending: ['delivered', 'failed', 'scheduled', 'queued', 'suppressed', 'expired', 'dead'],
  dead: ['queued', 'scheduled', 'suppressed', 'cancelled', 'expired'],
  delivered: [],
  suppressed: [],
  merged: [],
  failed: [],
  cancelled: [],
  expired: [],
} as const satisfies Record<Status, readonly Status[]>

export const statuses = Object.keys(transitions) as readonly Status[]

export function isFinal(status: Status): boolean {
  return transitions[status].length === 0
}

/** Whether a timeline may go on from `from` through the given states, one after the other. */
export function isLegalPath(from: Status, path: readonly Status[]): boolean {
  let at = from
  for (const next of path) {
    if (!(transitions[at] as readonly Status[]).includes(next)) return false
    at = next
  }
  return true
}

export type SuppressionReason =
  | 'duplicate'
  | 'opted_out'
  | 'over_limit'
  | 'complaint_guard'
  | 'invalid_address'
export type DelayReason =
  | 'tenant_limit'
  | 'module_limit'
  | 'recipient_limit'
  | 'quiet_hours'
  | 'legal_hours'
  | 'send_at'
  | 'digest'
  | 'complaint_guard'
  | 'provider_capacity'
  | 'retry'
export const deadCauses = [
  'pool_blocked',
  'shed',
  'circuit_open',
  'attempts_exhausted',
  'outcome_unknown',
  'poison',
] as const
export type DeadCause = (typeof deadCauses)[number]
export type Reason = SuppressionReason | DelayReason | DeadCause

/** One rule of a decision: a window of a limit as it stood before this notification was counted. */
export interface RuleReport {
  readonly limit: string
  /** The window as the policy writes it: `2/day`; a minimum distance reads `1/300ms`. */
  readonly window: string
  /** What was in the window ending now, without reservations. */
  readonly used: number
  readonly max: number
  readonly remaining: number
  /** When the next place is free, epoch ms; `null` where it never is. */
  readonly freesAt: number | null
  readonly admits: boolean
}

export type Outcome = 'send' | 'delay' | 'digest' | 'fallback' | 'suppress'

/** What was decided for one notification, with every rule that was asked. Instants are epoch ms. */
export interface Decision {
  readonly outcome: Outcome
  readonly reason?: Reason
  /** The limit that gave the final instant or the refusal. */
  readonly limit?: string
  /** When it leaves, or when its digest closes; absent for what is suppressed. */
  readonly at?: number
  readonly policyVersion: string
  readonly rules: readonly RuleReport[]
}

export interface TimelineEvent {
  readonly at: number
  readonly status: Status
  readonly reason?: Reason
  readonly provider?: string
  readonly account?: string
  readonly attempt?: number
  readonly detail?: string
}

/** The fields by which a request may address its recipient; any of them may also be stored beforehand. */
export interface RecipientFields {
  readonly id: string
  readonly email?: string
  readonly phone?: string
  readonly pushToken?: string
  readonly telegramChatId?: string
  readonly slackChannel?: string
  readonly webhookUrl?: string
  readonly timeZone?: string
  readonly locale?: string
}

export interface QuietWindow {
  readonly from: string
  readonly to: string
}

export interface OptOut {
  readonly category?: string
  readonly channel?: Channel
}

/** What is known of a recipient: addresses and preferences. */
export interface Recipient extends RecipientFields {
  readonly tenant: string
  readonly quietHours?: Readonly<Partial<Record<Channel | 'default', QuietWindow>>>
  readonly optOuts?: readonly OptOut[]
}

/** A notification as a client asks for it, checked and with its defaults, before any decision. */
export interface Draft {
  readonly to: RecipientFields
  /** The job that it is of. */
  readonly job?: string
  readonly channel: Channel
  readonly category: string
  readonly priority: Priority
  readonly template?: string
  readonly data?: JsonObject
  readonly content?: Content
  /** What a batch says to all of its recipients; `data` is then the recipient's own and goes over it. */
  readonly shared?: DraftedContent
  readonly actor?: string
  readonly sendAt?: number
  readonly expiresAt?: number
}

/** One message for one recipient over one channel. */
export interface Notification {
  readonly id: string
  readonly tenant: string
  readonly module: string
  /** The recipient as the request gave it: the id, and addresses that hold for this notification only. */
  readonly to: RecipientFields
  /** The batch in the background that it is of. */
  readonly job?: string
  readonly channel: Channel
  /** The channel that was asked for, where a limit made another one carry it. */
  readonly requestedChannel?: Channel
  readonly category: string
  readonly priority: Priority
  readonly template?: string
  /** What it carries itself; with `shared` only what goes over that. */
  readonly data?: JsonObject
  readonly content?: Content
  /** The size of these two as JSON. Absent where it carries neither, and in records of before sizes were kept. */
  readonly bytes?: number
  /** Its content where that is kept apart: see content.ts. */
  readonly shared?: ContentRef
  readonly actor?: string
  /** A digest counts once for every author in it. */
  readonly actors?: readonly string[]
  /** The earliest instant that the application asked for, epoch ms. */
  readonly sendAt?: number
  readonly expiresAt?: number
  readonly createdAt: number
  /** Stable hash of recipient, channel, template, content and data. */
  readonly fingerprint: string
  readonly status: Status
  /** When it is due: the booked instant, the close of its digest, the next trial of a dead letter. Epoch ms. */
  readonly dueAt: number
  readonly decision: Decision
  /** The digest that collects it, or into which it was merged. */
  readonly digestId?: string
  /** It left a digest to be sent on its own, and never enters one again. */
  readonly single?: boolean
  /**
   * Its limits are still to be asked when it is due: it waits behind a tenant or module limit, for the sendAt before
   * its digest, or for its own expiry. It holds no instant.
   */
  readonly undecided?: boolean
  /** Calls to a provider so far. */
  readonly attempts: number
  /**
   * When its turn came in the line before its tenant's and module's limits, where it counts for them. Absent for what
   * never stood there, which counts at its acceptance. Epoch ms.
   */
  readonly turnedAt?: number
  /** When it was last handed to a provider, epoch ms. */
  readonly firedAt?: number
  /**
   * When it may have been sent without our knowing: calls that were never answered, and crashes that found it
   * unsettled after its booked instant. Each counts. Epoch ms, in order.
   */
  readonly suspects?: readonly number[]
  readonly timeline: readonly TimelineEvent[]
  /** How many events in the middle of a long timeline are not kept. */
  readonly omitted?: number
}

/** Items that wait to leave as one notification. The id becomes that of the notification with the last of them. */
export interface Digest {
  readonly id: string
  readonly tenant: string
  readonly recipient: string
  readonly channel: Channel
  readonly category: string
  /** The policy's name for it. */
  readonly name: string
  readonly openedAt: number
  /** When its window ends, or when it is tried again after a limit did not admit it. Epoch ms. */
  readonly closesAt: number
}

export const jobStatuses = ['running', 'done', 'cancelled'] as const
export type JobStatus = (typeof jobStatuses)[number]

/** A recipient of a batch of whom nothing was accepted, and why: a code of the table of errors. */
export interface Refusal {
  readonly recipient: string
  readonly code: string
  readonly detail: string
}

/**
 * A batch that is accepted in the background. It is done when of each recipient a notification is decided and
 * accepted, or is refused; what becomes of the notifications then is their own matter.
 */
export interface Job {
  readonly id: string
  readonly tenant: string
  readonly module: string
  readonly createdAt: number
  readonly status: JobStatus
  /** Recipients, those that are refused among them. */
  readonly total: number
  /** How many of them are accepted or refused. */
  readonly taken: number
  readonly refused: readonly Refusal[]
  /** What it says to all; on record as long as the job or a notification refers to it. */
  readonly shared?: ContentRef
  /** The size of what it still has to do, without what is shared. Absent in records of before sizes were kept. */
  readonly bytes?: number
}

/** Recipients of a job that are still to be accepted; they hold places in the tenant's queue. */
export function pendingOf({ status, total, taken }: Job): number {
  return status === 'running' ? total - taken : 0
}

/** The size of what is still to be done of a job. */
export const pendingBytesOf = (job: Job): number =>
  Math.ceil(((job.bytes ?? 0) * pendingOf(job)) / Math.max(1, job.total))

/** What a move may change besides the state. */
export type Patch = Partial<
  Pick<
    Notification,
    | 'channel'
    | 'requestedChannel'
    | 'dueAt'
    | 'decision'
    | 'digestId'
    | 'single'
    | 'undecided'
    | 'attempts'
    | 'turnedAt'
    | 'firedAt'
    | 'suspects'
  >
>

/** A change of state; `events` is the path. What keeps decision and channel may lack `content` and `data`: they stay. */
export interface Move {
  readonly before: Notification
  readonly after: Notification
  readonly events: readonly TimelineEvent[]
}

/** Carries a notification along the events; throws where the table of transitions does not allow the path. */
export function advance(before: Notification, events: readonly TimelineEvent[], patch?: Patch): Move {
  let { status } = before
  let isLegal = events.length > 0
  for (const event of events) {
    isLegal &&= (transitions[status] as readonly Status[]).includes(event.status)
    status = event.status
  }
  if (!isLegal) {
    const path = [before, ...events].map((each) => each.status)
    throw new TypeError(`notification ${before.id} cannot go ${path.join(' → ')}`)
  }
  const timeline = before.timeline.concat(events)
  const bounds =
    timeline.length <= timelineMax ? { timeline } : shortened(timeline, before.omitted, mayFollow)
  return { before, after: { ...before, ...patch, status, ...bounds }, events }
}

const mayFollow = (from: Status, to: Status): boolean => isLegalPath(from, [to])

/** Which version of a notification it is: how many events there have been. Every move adds at least one. */
export function revisionOf({ timeline, omitted = 0 }: Pick<Notification, 'timeline' | 'omitted'>): number {
  return timeline.length + omitted
}

/** Of the event that says that its recipient was not connected when it would have left. */
export const awayDetail = 'not connected'

/** Whether it waits for its recipient to connect. */
export function awaitsConnection({ status, channel, timeline }: Notification): boolean {
  return status === 'scheduled' && channel === 'websocket' && timeline.at(-1)?.detail === awayDetail
}

/** The limit of tenant or module behind which it stands in the line. */
export function delayingLimit({
  status,
  decision,
}: Pick<Notification, 'status' | 'decision'>): 'tenant' | 'module' | undefined {
  if (status !== 'scheduled') return undefined
  if (decision.reason === 'tenant_limit') return 'tenant'
  return decision.reason === 'module_limit' ? 'module' : undefined
}

/** When it counted for its tenant's and module's limits; undefined while it stands in the line, and if it ended there. */
export function countedAt({
  turnedAt,
  createdAt,
  timeline,
}: Pick<Notification, 'turnedAt' | 'createdAt' | 'timeline'>): number | undefined {
  const first = timeline[1]?.reason
  return first === 'tenant_limit' || first === 'module_limit' ? turnedAt : createdAt
}
