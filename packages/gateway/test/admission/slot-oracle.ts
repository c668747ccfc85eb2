/**
 * Finds the instants at which notifications may leave, for random limits, by code that is not the limiter's: it tries the
 * end of every window one after the other.
 */
import assert from 'node:assert/strict'
import { day, hour, minute } from '../harness.ts'

/** Every window is kept so much longer than it is written, ms. */
const marginMs = 20
/** A notification may be fired a moment after it is due, and those behind it in a full window are as late, ms. */
export const lateMsMax = 20

export interface Limit {
  readonly name: string
  /** @defaultValue every category */
  readonly category?: string
  /** True if it counts all recipients of the tenant together. */
  readonly isShared?: boolean
  readonly windows: readonly { readonly max: number; readonly minutes: number }[]
}

/** Every day from 14 to 15 o'clock UTC nothing leaves: runs begin at 12. */
const isQuiet = (at: number): boolean => at % day >= 14 * hour && at % day < 15 * hour
export const policyOf = (limits: readonly Limit[], hasQuietHours: boolean) => ({
  version: 1,
  ...(hasQuietHours
    ? {
        quietHours: {
          default: { from: '14:00', to: '15:00', channels: ['email', 'push'] },
          unknownTimeZone: 'UTC',
          spread: '1ms',
        },
      }
    : {}),
  limits: limits.map(({ name, category, isShared, windows }) => ({
    name,
    ...(isShared === true ? { per: ['tenant'] } : {}),
    for: category === undefined ? 'any' : { category },
    max: windows.map(({ max, minutes }) => `${max}/${minutes}min`),
    over: 'delay',
  })),
})

/** Tests if `at` fits into the window beside the others, by looking at the window behind each instant. */
function fits(others: readonly number[], at: number, max: number, minutes: number): boolean {
  const width = minutes * minute + marginMs
  return [...others, at].every((from) => {
    if (from > at || at >= from + width) return true
    return [...others, at].filter((each) => each >= from && each < from + width).length <= max
  })
}

export interface Sent {
  readonly recipient: string
  readonly category: string
  readonly at: number
}

/** The instants that a limit counts for a recipient. */
const countedBy = (
  { category, isShared }: Limit,
  sent: readonly Sent[],
  recipient: string,
): readonly number[] =>
  sent
    .filter((each) => (category ?? each.category) === each.category)
    .filter((each) => isShared === true || each.recipient === recipient)
    .map(({ at }) => at)

/**
 * Finds the earliest instant from `from` on at which a notification fits into every window beside those that were sent,
 * by trying.
 */
export function earliestBeside(
  limits: readonly Limit[],
  sent: readonly Sent[],
  { category, recipient }: Omit<Sent, 'at'>,
  from: number,
  hasQuietHours: boolean,
): number {
  const own = limits.filter((limit) => (limit.category ?? category) === category)
  const edges = own.flatMap((limit) =>
    limit.windows.flatMap(({ minutes }) =>
      countedBy(limit, sent, recipient).map((at) => at + minutes * minute + marginMs),
    ),
  )
  if (hasQuietHours)
    for (let at = Math.ceil(from / hour) * hour; at < from + 10 * day; at += hour) edges.push(at)
  const at = [from, ...edges.filter((edge) => edge > from)]
    .filter((edge) => !hasQuietHours || !isQuiet(edge))
    .sort((a, b) => a - b)
    .find((edge) =>
      own.every((limit) =>
        limit.windows.every(({ max, minutes }) =>
          fits(countedBy(limit, sent, recipient), edge, max, minutes),
        ),
      ),
    )
  return at!
}

/** Draws up to three limits; `below` draws a whole number below another. */
export function drawLimits(below: (count: number) => number): readonly Limit[] {
  return [
    {
      name: 'all',
      windows: [
        { max: 1 + below(3), minutes: 1 + below(6) },
        ...(below(2) === 0 ? [{ max: 4 + below(4), minutes: 20 + below(20) }] : []),
      ],
    },
    ...(below(2) === 0
      ? [{ name: 'rare', category: 'rare', windows: [{ max: 1, minutes: 5 + below(20) }] }]
      : []),
    ...(below(2) === 0
      ? [{ name: 'shared', category: 'rare', isShared: true, windows: [{ max: 1, minutes: 2 + below(8) }] }]
      : []),
  ]
}

/** Asserts that no window of a limit had more than its maximum; written widths, without the margin. */
export function assertNoneOver(limits: readonly Limit[], sent: readonly Sent[], run: string): void {
  for (const limit of limits)
    for (const { max, minutes } of limit.windows)
      for (const recipient of new Set(sent.map((each) => each.recipient))) {
        const instants = countedBy(limit, sent, recipient)
        for (const from of instants)
          assert.ok(
            instants.filter((at) => at >= from && at < from + minutes * minute).length <= max,
            `${run}: ${limit.name} is over at ${from}`,
          )
      }
}
