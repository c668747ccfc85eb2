/** The fate of a request, in the same words for the record and for a replay. Pure. */
import type { Channel, Notification, Status } from '../model.ts'
import { dueOf, leftAtOf, reasonOf } from './record.ts'
import type { TrafficLine } from './traffic.ts'

export const fateKinds = ['at_once', 'delayed', 'digest', 'dropped', 'ended'] as const
export type FateKind = (typeof fateKinds)[number]

export interface Fate {
  /**
   * `at_once`: it may leave within a second of its request. `delayed`: it waits longer. `digest`: it leaves in a digest.
   * `dropped`: it is suppressed. `ended`: it was cancelled or expired before it left.
   */
  readonly kind: FateKind
  readonly reason?: string
  readonly limit?: string
  readonly channel: Channel
  /** The instant that the policy gives it, epoch ms; absent where it never leaves. */
  readonly dueAt?: number
  /** The instant at which it left, alone or in its digest, epoch ms. */
  readonly leftAt?: number
  readonly digest?: string
}

/** A notification that waits no longer than this leaves at once, ms. */
export const atOnceMs = 1_000

const msOf = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : Date.parse(text)

/** The instant from which a policy's delay counts: the request, its turn in a throttle queue, or its `sendAt`. */
function wantedAt({ at, passedAt, sendAt }: Pick<TrafficLine, 'at' | 'passedAt' | 'sendAt'>): number {
  return Math.max(Date.parse(passedAt ?? at), msOf(sendAt) ?? 0)
}

interface Facts {
  readonly state: Status
  readonly reason?: string | undefined
  readonly limit?: string | undefined
  readonly channel: Channel
  readonly dueAt?: number | undefined
  readonly leftAt?: number | undefined
  readonly digest?: string | undefined
}

function fateFrom(wanted: number, facts: Facts): Fate {
  const { state, reason, limit, channel, dueAt, leftAt, digest } = facts
  const kind = kindOf(wanted, facts)
  return {
    kind,
    channel,
    ...(reason === undefined || kind === 'at_once' ? {} : { reason }),
    ...(limit === undefined || kind === 'at_once' ? {} : { limit }),
    ...(dueAt === undefined || kind === 'dropped' || kind === 'ended' ? {} : { dueAt }),
    ...(leftAt === undefined || state === 'suppressed' ? {} : { leftAt }),
    ...(digest === undefined || kind !== 'digest' ? {} : { digest }),
  }
}

function kindOf(wanted: number, { state, dueAt, leftAt }: Facts): FateKind {
  if (state === 'suppressed') return 'dropped'
  if (state === 'merged' || state === 'digesting') return 'digest'
  if ((state === 'cancelled' || state === 'expired') && leftAt === undefined) return 'ended'
  return (dueAt ?? leftAt ?? wanted) - wanted <= atOnceMs ? 'at_once' : 'delayed'
}

/** @param leftOfDigest the instants at which digests left, by their names */
export function recordedFate(line: TrafficLine, leftOfDigest: ReadonlyMap<string, number>): Fate {
  const { state, reason, limit, channel, fallback, digest } = line
  const isPart = state === 'merged' && digest !== undefined
  return fateFrom(wantedAt(line), {
    state,
    reason,
    limit,
    channel: fallback ?? channel,
    dueAt: msOf(line.dueAt),
    leftAt: isPart ? leftOfDigest.get(digest) : msOf(line.leftAt),
    digest,
  })
}

export function replayedFate(line: TrafficLine, notification: Notification): Fate {
  const { status, channel, decision, digestId } = notification
  return fateFrom(wantedAt(line), {
    state: status,
    reason: reasonOf(notification),
    limit: decision.limit,
    channel,
    dueAt: dueOf(notification),
    leftAt: leftAtOf(notification),
    digest: digestId,
  })
}
