/**
 * Classifies a notification that waits, or is a dead letter, for the backlog: by tenant, channel and category, by the
 * reason for which it waits, and by the limit or account that it waits for. The ledger counts by these cells, and the
 * stores count the same at the start. Pure.
 */
import type { Channel, Notification, Reason } from './model.ts'

export interface BacklogCell {
  readonly tenant: string
  readonly channel: Channel
  readonly category: string
  /** `waiting`: scheduled or in a digest. `queued`: its instant has come. `dead`: a dead letter. */
  readonly kind: 'waiting' | 'queued' | 'dead'
  /** The reason for which it waits, or the cause of a dead letter. */
  readonly reason?: Reason
  /** The limit that determined its instant. */
  readonly limit?: string
  /** The provider and account of the last call, of a retry and of a dead letter. */
  readonly provider?: string
  readonly account?: string
}

/** The waiting notifications of one cell that are due in the same second; at the start the store answers them. */
export interface BacklogRow extends BacklogCell {
  /** The second of its instant, rounded up; of a dead letter the second of its death. */
  readonly second: number
  readonly count: number
  /** The id of one of them. */
  readonly example: string
  /** The provider's last answer to the example, of dead letters. */
  readonly detail?: string
}

/** The part of the store's port that a start asks once, and each question where several processes share the store. */
export interface BacklogSource {
  /**
   * Counts what waits, and the dead letters, by cell and second. With a coarseness a store may count several seconds of a
   * cell together: then its earliest and its latest second are exact, and each other one is within a minute or an hour.
   */
  backlog(coarseness?: BacklogCoarseness): Promise<readonly BacklogRow[]>
}

/** Seconds of the epoch. */
export interface BacklogCoarseness {
  /** Instants between these two are counted by the second. */
  readonly secondsFrom: number
  readonly secondsUntil: number
  /** Instants from there until then are counted by the minute, and all others by the hour. */
  readonly minutesUntil: number
}

/** Seconds are rounded up: by the end of that second all of them have left. */
export const secondOf = (instant: number): number => Math.ceil(instant / 1_000)

/**
 * The reason for which a notification waits, as its newest event and its decision name it. Undefined where nothing
 * but its turn is missing.
 */
export function waitingReason({
  timeline,
  decision,
  status,
}: Pick<Notification, 'timeline' | 'decision' | 'status'>): Reason | undefined {
  const { reason } = timeline.at(-1) ?? {}
  if (reason !== undefined) return reason
  return status === 'scheduled' || status === 'digesting' ? decision.reason : undefined
}

/** The reason under which what is due counts: it waits for an account, or undecided for the server of the limits. */
export const dueReason = ({ kind, reason }: Pick<BacklogCell, 'kind' | 'reason'>): Reason =>
  kind === 'queued' && reason === 'state_unavailable' ? reason : 'provider_capacity'

/** The cell and second in which a notification counts; undefined for one that has ended. */
export function backlogRowOf(notification: Notification): Omit<BacklogRow, 'count'> | undefined {
  const { id, tenant, channel, category, status, dueAt, decision, timeline } = notification
  const last = timeline.at(-1)
  const common = { tenant, channel, category, example: id }
  switch (status) {
    case 'dead':
      return {
        ...common,
        kind: 'dead',
        second: secondOf(last?.at ?? dueAt),
        ...named('reason', last?.reason),
        ...named('provider', last?.provider),
        ...named('account', last?.account),
        ...named('detail', last?.detail),
      }
    case 'scheduled':
    case 'digesting':
    case 'queued':
    case 'sending': {
      const reason = waitingReason(notification)
      const isRetry = reason === 'retry'
      return {
        ...common,
        kind: status === 'scheduled' || status === 'digesting' ? 'waiting' : 'queued',
        second: secondOf(dueAt),
        ...named('reason', reason),
        ...named('limit', reason === decision.reason ? decision.limit : undefined),
        ...named('provider', isRetry ? last?.provider : undefined),
        ...named('account', isRetry ? last?.account : undefined),
      }
    }
    default:
      return undefined
  }
}

function named<Name extends string, Value>(name: Name, value: Value | undefined): { [N in Name]?: Value } {
  return value === undefined ? {} : ({ [name]: value } as { [N in Name]: Value })
}

// ---- questions about the backlog

export const backlogKeys = ['reason', 'channel', 'tenant', 'category', 'account', 'limit'] as const
type BacklogKey = (typeof backlogKeys)[number]

export interface BacklogFilter {
  readonly tenant?: string
  readonly channel?: Channel
  readonly reason?: string
}

/** The calls that the accounts of a channel admit: from that instant on so many a second. */
export interface Capacity {
  readonly from: number
  readonly perSecond: number
}

export interface BacklogQuery extends BacklogFilter {
  readonly by: BacklogKey
  readonly now: number
  /** Undefined where nothing will carry the channel. */
  readonly capacityOf: (channel: Channel) => Capacity | undefined
}

export const spans = { '1m': 60, '10m': 600, '1h': 3_600, '1d': 86_400 } as const
export type Span = keyof typeof spans | 'later'

export interface BacklogGroup {
  readonly key: string
  readonly count: number
  /** The earliest instant that has passed; null where none is due. */
  readonly oldestDueAt: number | null
  /** The earliest and the latest instant to come; null where all are due. */
  readonly nextAt: number | null
  readonly lastAt: number | null
  /** The instant at which all of them have left; null for never. */
  readonly emptyAt: number | null
  readonly emptyIs: 'booked' | 'estimate' | 'never'
  /** How many leave within a minute, then within ten, and so on: the spans sum to the count. What is due is in the first. */
  readonly leaving: Readonly<Record<Span, number>>
}

export interface BacklogReport {
  readonly groups: readonly BacklogGroup[]
  /** Booked departures by minute from now on. */
  readonly departures: readonly number[]
}

/** Groups of one answer at most; the others are one group `other`. */
export const groupsMax = 200
export const departureMinutes = 1_440

/** Dead letters of one cause, pool and account. */
export interface DeadGroup {
  readonly cause: string
  /** Null for records of topics that could not be accepted. */
  readonly channel: Channel | null
  readonly provider?: string
  readonly account?: string
  readonly count: number
  readonly oldestAt: number
  /** One of them, and the provider's last answer to it. */
  readonly example?: string
  readonly answer?: string
}

/** The questions that the ledger's counters answer. */
export interface BacklogReports {
  /**
   * Brings the counters up to what is on record, where other processes change it too; to be awaited before a question.
   * Absent where this process counts every change itself. Rejects with STORE_UNAVAILABLE.
   */
  refresh?(): Promise<void>
  /** The same for the dead letters alone: where there are none, nothing else is read, however many wait. */
  refreshDead?(): Promise<void>
  report(query: BacklogQuery): BacklogReport
  deadLetters(filter: BacklogFilter): readonly DeadGroup[]
}

// ---- sums for the metrics

export interface BacklogTotals {
  /** The waiting notifications by channel and reason; what is due has that of `dueReason`. */
  readonly waiting: readonly { readonly channel: string; readonly reason: string; readonly count: number }[]
  /** Dead letters by channel and cause. */
  readonly dead: readonly { readonly channel: string; readonly reason: string; readonly count: number }[]
  /** Notifications whose instant comes within each time. */
  readonly dueWithin: Readonly<Record<keyof typeof spans, number>>
}
