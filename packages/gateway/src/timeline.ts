/**
 * Shortens long timelines. Most have a handful of events; one whose provider answers 429 for a day would have
 * thousands, rewritten with each of them. The beginning and the end are kept and the middle is left out, so that the
 * rest is still a legal path, and the event after the gap says how many were omitted. Pure.
 */

/** The maximum number of events that are kept. */
export const timelineMax = 64
/** The number of kept events from the beginning. */
const firstMax = 16

/** The part of an event that shortening reads: declared here because the model imports this file. */
interface Event<Status> {
  readonly status: Status
  readonly detail?: string
}

export interface Timeline<E> {
  readonly timeline: readonly E[]
  /** The number of events that were left out. */
  readonly omitted?: number
}

/** Finds the event with this number, counted from 0 over all events. Of one that was left out: the one after the gap. */
export function eventAt<E>({ timeline, omitted }: Timeline<E>, number: number): E | undefined {
  if (omitted === undefined || number < firstMax) return timeline[number]
  return timeline[Math.max(firstMax, number - omitted)]
}

/** @param mayFollow whether one state may follow the other */
export function shortened<Status, E extends Event<Status>>(
  timeline: readonly E[],
  omitted: number | undefined,
  mayFollow: (from: Status, to: Status) => boolean,
): Timeline<E> {
  const first = timeline.slice(0, firstMax)
  const { status } = first.at(-1)!
  const over = timeline.length - timelineMax
  for (let next = firstMax + over; next < timeline.length; next += 1) {
    const event = timeline[next]!
    if (!mayFollow(status, event.status)) continue
    const all = (omitted ?? 0) + next - firstMax
    const note = `${all} events before this one are left out`
    const detail = event.detail === undefined ? note : `${event.detail}; ${note}`
    return { timeline: [...first, { ...event, detail }, ...timeline.slice(next + 1)], omitted: all }
  }
  return { timeline, ...(omitted === undefined ? {} : { omitted }) }
}
