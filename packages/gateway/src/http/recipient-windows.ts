/**
 * The windows of one recipient over time, for a picture: the instants that count in each stream of the limits, the
 * intervals in which a window is full, and the hours in which nothing may be sent. All of it is computed from the
 * recipient's newest admissions, which the store finds by its index of recipients. Pure.
 */
import { forbiddenIntervals, type Limit, parseDuration } from '@sluice/limits'
import { type Channel, channels, type Recipient } from '../model.ts'
import { criticalName, limitName } from '../policy/counter.ts'
import type { Policy } from '../policy/policy.ts'
import type { Admission, Countable } from '../ports.ts'

export interface WindowsQuery {
  readonly from: number
  readonly to: number
  readonly channel?: Channel
  readonly category?: string
  readonly actor?: string
}

/** Streams of one answer at most, and instants of one stream: the newest. */
export const streamsMax = 12
export const instantsMax = 500
/** Admissions that are read. */
export const admissionsMax = 1_000
/** Intervals of quiet or legal hours of one answer at most. */
const forbiddenMax = 400

interface Interval {
  readonly from: number
  readonly to: number
}

interface Instant {
  readonly at: number
  readonly notificationId: string
  readonly state: 'counted' | 'booked'
}

interface Stream {
  readonly rule: Limit
  readonly shared: boolean
  readonly instants: Instant[]
}

export interface WindowRules {
  readonly policy: Pick<Policy, 'rulesFor' | 'quietFor' | 'document'>
  /** Windows are kept this much longer than written, ms. */
  readonly marginMs: number
}

export function windowsOf(
  { policy, marginMs }: WindowRules,
  recipient: Recipient | null,
  admissions: readonly Admission[],
  query: WindowsQuery,
) {
  const streams = new Map<string, Stream>()
  const gaps = minGapsOf(policy)
  for (const each of admissions) {
    if (each.undecided === true || !isWanted(each, query)) continue
    const at = each.firedAt ?? each.dueAt
    for (const { subject, rules } of policy.rulesFor(each, recipient)) {
      for (const rule of rules) {
        const key = `${JSON.stringify(subject)}\n${rule.name}\n${rule.stream}`
        let stream = streams.get(key)
        if (stream === undefined) {
          stream = { rule, shared: subject.recipient === undefined, instants: [] }
          streams.set(key, stream)
        }
        const state = each.firedAt === undefined ? 'booked' : 'counted'
        // A stream that other recipients share would show only this one's part of it.
        if (!stream.shared) stream.instants.push({ at, notificationId: each.id, state })
      }
    }
  }
  const shown = [...streams.values()].slice(0, streamsMax)
  const rows = shown.flatMap(({ rule, shared, instants }) => {
    const inOrder = instants.sort((a, b) => a.at - b.at)
    const newest = inOrder.slice(-instantsMax)
    const limit = limitName(rule.name)
    const minGapMs = gaps.get(limit)
    return rule.windows.map(({ text, windowMs, max }) => ({
      limit,
      window: text,
      windowMs,
      marginMs,
      max,
      ...(minGapMs === undefined ? {} : { minGapMs }),
      shared,
      full: shared ? [] : fullIntervals(newest, max, windowMs + marginMs, query),
      instants: newest.filter(({ at }) => at >= query.from - windowMs - marginMs && at < query.to),
    }))
  })
  return {
    forbidden: forbiddenOf(policy, recipient, query),
    streams: rows.slice(0, streamsMax),
    truncated:
      admissions.length >= admissionsMax ||
      streams.size > streamsMax ||
      rows.length > streamsMax ||
      shown.some(({ instants }) => instants.length > instantsMax),
  }
}

/** The minimum distance of the limits that have one, ms, by name. */
function minGapsOf({ document }: Pick<Policy, 'document'>): ReadonlyMap<string, number> {
  const { limits = [], critical } = document as {
    readonly limits?: readonly { readonly name: string; readonly minGap?: string }[]
    readonly critical?: { readonly minGap?: string }
  }
  const named = critical === undefined ? limits : [...limits, { ...critical, name: criticalName }]
  return new Map(
    named.flatMap(({ name, minGap }) => (minGap === undefined ? [] : [[name, parseDuration(minGap)]])),
  )
}

const isWanted = (each: Countable, { channel, category, actor }: WindowsQuery): boolean =>
  (channel === undefined || each.channel === channel) &&
  (category === undefined || each.category === category) &&
  (actor === undefined || each.actor === actor)

/** A window is full from its `max`-th instant until the first of these leaves it. */
function fullIntervals(
  instants: readonly Instant[],
  max: number,
  windowMs: number,
  { from, to }: WindowsQuery,
): readonly Interval[] {
  if (max === 0) return [{ from, to }]
  const full: { from: number; to: number }[] = []
  for (let last = max - 1; last < instants.length; last += 1) {
    const begin = Math.max(from, instants[last]!.at)
    const end = Math.min(to, instants[last - max + 1]!.at + windowMs)
    if (end <= begin) continue
    const before = full.at(-1)
    if (before !== undefined && begin <= before.to) before.to = Math.max(before.to, end)
    else full.push({ from: begin, to: end })
  }
  return full
}

function forbiddenOf(
  policy: Pick<Policy, 'quietFor'>,
  recipient: Recipient | null,
  { from, to, channel, category = 'marketing' }: WindowsQuery,
) {
  const asked = channel === undefined ? channels : [channel]
  const found = asked.flatMap((on) =>
    policy
      .quietFor({ channel: on, category, priority: 'normal' }, recipient ?? {})
      .flatMap(({ reason, spec }) =>
        forbiddenIntervals(spec, from, to).map((interval) => ({
          kind: reason === 'quiet_hours' ? ('quiet' as const) : ('legal' as const),
          channel: on,
          from: interval.from,
          to: interval.to,
        })),
      ),
  )
  return found.sort((a, b) => a.from - b.from).slice(0, forbiddenMax)
}
