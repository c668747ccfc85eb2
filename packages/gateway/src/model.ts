/**
 * The domain model of Sluice: notifications, their states, decisions, digests and jobs. Everything here is data and
 * pure functions over it; the rest of the gateway moves these values about.
 */
import type { Content, ContentRef, DraftedContent, JsonObject } from './content.ts'
import { shortened, timelineMax } from './timeline.ts'

export type { Content, ContentRef, JsonObject, JsonValue, Payload, SharedContent } from './content.ts'
export { eventAt } from './timeline.ts'

export const channels = ['email', 'sms', 'push', 'telegram', 'slack', 'webhook', 'websocket'] as const
export type Channel = (typeof channels)[number]

export const priorities = ['critical', 'high', 'normal', 'low'] as const
export type Priority = (typeof priorities)[number]

/** Maps a channel to the recipient's field that holds its address; `websocket` is addressed by the id itself. */
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
 * The legal state transitions. A state with no successor is final; `dead` is not final: it leaves by redrive, by
 * cancellation or by its own expiry.
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

/** True if the given states may follow `from`, one after the other. */
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
  | 'held'
  | 'send_at'
  | 'digest'
  | 'complaint_guard'
  | 'provider_capacity'
  | 'retry'
  | 'state_unavailable'
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
/** One rule of a decision: a limit's window as it stood before this notification was counted. */
export interface RuleReport {
  readonly limit: string
  /** The window as the policy writes it: `2/day`; a minimum distance reads `1/300ms`. */
  readonly window: string
  /** The number of entries in the window ending now, without reservations. */
  readonly used: number
  readonly max: number
  readonly remaining: number
  /** The instant at which the next slot is free, epoch ms; `null` where it never is. */
  readonly freesAt: number | null
  readonly admits: boolean
}

export type Outcome = 'send' | 'delay' | 'digest' | 'fallback' | 'suppress'

/** The decision for one notification, with every rule that was evaluated. Instants are epoch ms. */
export interface Decision {
  readonly outcome: Outcome
  readonly reason?: Reason
  /** The limit that determined the final instant or the refusal. */
  readonly limit?: string
  /** The instant at which it leaves, or at which its digest closes; absent for a suppressed notification. */
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

/** An address that reaches nobody any more, as a permanent bounce tells. Only a different address lifts it. */
export interface InvalidAddress {
  readonly channel: Channel
  /** The address that bounced; never shown. */
  readonly address: string
  /** The instant of the bounce, epoch ms. */
  readonly at: number
  readonly detail?: string
}

/** A recipient's stored addresses and preferences. */
export interface Recipient extends RecipientFields {
  readonly tenant: string
  /** Its version on record: each write has another one. Absent in a store of one process; never shown. */
  readonly version?: number
  readonly quietHours?: Readonly<Partial<Record<Channel | 'default', QuietWindow>>>
  readonly optOuts?: readonly OptOut[]
  /** At most one address of each channel: the one that bounced last. */
  readonly invalid?: readonly InvalidAddress[]
}

/** A notification as a client requests it, validated and with defaults, before any decision. */
export interface Draft {
  readonly to: RecipientFields
  /** The job to which it belongs. */
  readonly job?: string
  readonly channel: Channel
  readonly category: string
  readonly priority: Priority
  readonly template?: string
  readonly data?: JsonObject
  readonly content?: Content
  /**
   * Content that a batch shares among all of its recipients; `data` is then the recipient's own and overrides the
   * shared data.
   */
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
  /** The recipient as the request gave it: the id, and addresses that apply to this notification only. */
  readonly to: RecipientFields
  /** The background batch job to which it belongs. */
  readonly job?: string
  readonly channel: Channel
  /** The requested channel, where a limit moved it to a fallback channel. */
  readonly requestedChannel?: Channel
  readonly category: string
  readonly priority: Priority
  readonly template?: string
  /** The data that it carries itself; with `shared` only the overriding part. */
  readonly data?: JsonObject
  readonly content?: Content
  /** The size of content and data as JSON. Absent where it carries neither. */
  readonly bytes?: number
  /** A reference to its content where that is kept apart: see content.ts. */
  readonly shared?: ContentRef
  readonly actor?: string
  /** The actors of its items: a digest counts once for every actor in it. */
  readonly actors?: readonly string[]
  /** The earliest instant that the application requested, epoch ms. */
  readonly sendAt?: number
  readonly expiresAt?: number
  readonly createdAt: number
  /** Stable hash of recipient, channel, template, content and data. */
  readonly fingerprint: string
  readonly status: Status
  /**
   * The instant at which it is due, epoch ms: the reserved instant, the close of its digest, or the next retry of a
   * dead letter.
   */
  readonly dueAt: number
  readonly decision: Decision
  /** The digest that collects it, or into which it was merged. */
  readonly digestId?: string
  /** True if it left a digest to be sent on its own; it never enters one again. */
  readonly single?: boolean
  /**
   * True if its limits are evaluated only when it is due: it waits behind a tenant or module limit, for the sendAt
   * before its digest, or for its own expiry. It holds no instant.
   */
  readonly undecided?: boolean
  /** The number of calls to a provider so far. */
  readonly attempts: number
  /**
   * The instant at which it left the throttle queue, or passed it at another instant than its acceptance, and counted for
   * its tenant's and module's limits. Absent for a notification that counts at its acceptance. Epoch ms.
   */
  readonly turnedAt?: number
  /** The instant at which it was last handed to a provider, epoch ms. */
  readonly firedAt?: number
  /** The instant since which another process may be sending it, epoch ms. It is told by a reading, and is on no record. */
  readonly begunAt?: number
  /**
   * Instants at which it may have been sent without confirmation: calls that were never answered, and crashes that
   * found it unsettled after its reserved instant. Each counts. Epoch ms, ascending.
   */
  readonly suspects?: readonly number[]
  readonly timeline: readonly TimelineEvent[]
  /** The number of events in the middle of a long timeline that are not kept. */
  readonly omitted?: number
}

/** Items that wait to leave as one notification. The digest's id becomes the id of the merged notification. */
export interface Digest {
  readonly id: string
  readonly tenant: string
  readonly recipient: string
  readonly channel: Channel
  readonly category: string
  /** The digest's name in the policy. */
  readonly name: string
  readonly openedAt: number
  /** The instant at which its window ends, or at which it is retried after a limit did not admit it. Epoch ms. */
  readonly closesAt: number
  /** Where a limit holds it up: as what it holds its instant, of its authors the first. Its limits are found by that. */
  readonly heldAs?: Pick<Notification, 'module' | 'to' | 'priority' | 'template' | 'actors'>
}

export const jobStatuses = ['running', 'done', 'cancelled'] as const

/** A recipient of a batch for whom nothing was accepted, with an error code as the reason. */
export interface Refusal {
  readonly recipient: string
  readonly code: string
  readonly detail: string
}

/**
 * A batch that is accepted in the background. It is done when each recipient's notification is decided and accepted,
 * or refused; the notifications' later outcomes do not matter to it.
 */
export interface Job {
  readonly id: string
  readonly tenant: string
  readonly module: string
  readonly createdAt: number
  readonly status: (typeof jobStatuses)[number]
  /** The number of recipients, refused ones included. */
  readonly total: number
  /** The number of recipients that are accepted or refused. */
  readonly taken: number
  readonly refused: readonly Refusal[]
  /** How often erasures of several processes have renamed a recipient of it: a step that was read before is refused. */
  readonly renamed?: number
  /** The content that it shares among all recipients; on record as long as the job or a notification refers to it. */
  readonly shared?: ContentRef
  /** The size of its remaining work, without shared content. Absent in records from before sizes were kept. */
  readonly bytes?: number
}

/** The number of a job's recipients that are still to be accepted; they hold room in the tenant's queue. */
export function pendingOf({ status, total, taken }: Job): number {
  return status === 'running' ? total - taken : 0
}

/** The size of a job's remaining work. */
export const pendingBytesOf = (job: Job): number =>
  Math.ceil(((job.bytes ?? 0) * pendingOf(job)) / Math.max(1, job.total))

/** The fields that a move may change besides the state. */
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

/** A state transition; `events` is the path. Where decision and channel stay, `content` and `data` may be missing. */
export interface Move {
  readonly before: Notification
  readonly after: Notification
  readonly events: readonly TimelineEvent[]
}

/** Moves a notification along the events; throws where the transition table does not allow the path. */
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

/** The version of a notification: the number of events so far. Every move adds at least one. */
export function revisionOf({ timeline, omitted = 0 }: Pick<Notification, 'timeline' | 'omitted'>): number {
  return timeline.length + omitted
}

/** Detail of the event that records that the recipient was offline at the time of sending. */
export const awayDetail = 'not connected'

/** True if it waits for its recipient to connect. */
export function awaitsConnection({ status, channel, timeline }: Notification): boolean {
  return status === 'scheduled' && channel === 'websocket' && timeline.at(-1)?.detail === awayDetail
}

/** The tenant or module limit in whose throttle queue it stands. */
export function delayingLimit({
  status,
  decision,
}: Pick<Notification, 'status' | 'decision'>): 'tenant' | 'module' | undefined {
  if (status !== 'scheduled') return undefined
  if (decision.reason === 'tenant_limit') return 'tenant'
  return decision.reason === 'module_limit' ? 'module' : undefined
}
