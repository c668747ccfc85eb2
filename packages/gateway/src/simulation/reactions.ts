/**
 * How recipients react to what they get, by the curves of `sluice advise`: the messages of a day that are opened grow
 * like a·ln(1 + b·n) with their number n, and the share of the recipients that uninstalls like c·e^(d·n). A scenario
 * gives two measured points of each. A recipient is judged by the fullest rolling day; figures are expectations, not
 * draws, so that a run is compared with another without noise. Pure.
 */
import { type Static, Type } from '@sinclair/typebox'
import { churnCurve, engagementCurve, type Parameters } from '../advice/curves.ts'
import { readShare } from '../config/quantity.ts'
import type { Source } from '../config/source.ts'

const share = Type.Union(
  [Type.String({ pattern: '^\\s*\\d+(\\.\\d+)?\\s*%\\s*$' }), Type.Number({ minimum: 0, maximum: 1 })],
  { expects: 'a share such as 20%' },
)
const pair = Type.Object(
  {
    at: Type.Tuple([Type.Number({ minimum: 1 }), Type.Number({ minimum: 1 })], {
      expects: 'two numbers of messages a recipient and day, such as [1, 47]',
    }),
    share: Type.Tuple([share, share], { expects: 'the share at each of them, such as [20%, 2%]' }),
  },
  { additionalProperties: false, expects: 'at and share' },
)
export const reactionsSchema = Type.Object(
  { opens: Type.Optional(pair), uninstalls: Type.Optional(pair) },
  { additionalProperties: false, expects: 'opens and uninstalls' },
)

interface Measured {
  /** The share at the lower number of messages. */
  readonly usual: number
  readonly parameters: Parameters
}

export interface Reactions {
  /** Share of the messages that are opened. */
  readonly opens?: Measured
  /** Share of the recipients that uninstall. */
  readonly uninstalls?: Measured
}

export interface ReactionFigures {
  /** Messages that are opened, and their share of those delivered. */
  readonly opens?: { readonly count: number; readonly share: number }
  /** Recipients that uninstall, their share of all, and how many times the usual share that is. */
  readonly uninstalls?: { readonly count: number; readonly share: number; readonly timesUsual: number }
}

interface Points {
  readonly at: readonly [number, number]
  readonly share: readonly [number, number]
}

/** Reads the section `reactions` of a scenario and lays a curve through both points of each. */
export function readReactions(document: Static<typeof reactionsSchema>, source: Source): Reactions {
  const curveOf = (
    name: 'opens' | 'uninstalls',
    lay: (points: Points) => Parameters | string,
  ): Measured | undefined => {
    const given = document[name]
    if (given === undefined) return undefined
    const share = [readShare(given.share[0]), readShare(given.share[1])] as const
    const points = { at: [given.at[0], given.at[1]] as const, share }
    const path = ['reactions', name]
    if (given.at[0] >= given.at[1]) return source.fault([...path, 'at'], 'expected the lower number first')
    if (share[0] === 0 || share[1] === 0) return source.fault([...path, 'share'], 'expected shares above 0%')
    const parameters = lay(points)
    return typeof parameters === 'string'
      ? source.fault([...path, 'share'], parameters)
      : { usual: share[0], parameters }
  }
  const opens = curveOf('opens', openCurve)
  const uninstalls = curveOf('uninstalls', uninstallCurve)
  return { ...(opens && { opens }), ...(uninstalls && { uninstalls }) }
}

/** The opened messages of a day grow with their number, by less each: the bend b between both is found by halving. */
function openCurve({ at: [few, many], share: [shareFew, shareMany] }: Points): Parameters | string {
  const ratio = (many * shareMany) / (few * shareFew)
  if (ratio <= 1 || shareMany >= shareFew)
    return `expected a share that falls, by less than the number of messages grows: ${few} · ${shareFew} opened messages against ${many} · ${shareMany}`
  let [low, high] = [-30, 30]
  for (let step = 0; step < 80; step += 1) {
    const middle = (low + high) / 2
    const bend = Math.exp(middle)
    if (Math.log1p(bend * many) / Math.log1p(bend * few) > ratio) low = middle
    else high = middle
  }
  const bend = Math.exp((low + high) / 2)
  return [(few * shareFew) / Math.log1p(bend * few), bend]
}

function uninstallCurve({ at: [few, many], share: [shareFew, shareMany] }: Points): Parameters | string {
  if (shareMany < shareFew) return 'expected a share that does not fall'
  const growth = Math.log(shareMany / shareFew) / (many - few)
  return [shareFew / Math.exp(growth * few), growth]
}

/** Expects what recipients do who got messages at these instants. */
export function reactionFigures(
  reactions: Reactions,
  arrivals: Iterable<readonly number[]>,
  recipients: number,
): ReactionFigures {
  let [delivered, opened, uninstalled, reached] = [0, 0, 0, 0]
  const { opens, uninstalls } = reactions
  const uninstallShare = (messages: number): number =>
    uninstalls === undefined ? 0 : Math.min(1, churnCurve.at(uninstalls.parameters, messages))
  for (const instants of arrivals) {
    const days = fullestDays(instants)
    delivered += days.length
    reached += 1
    uninstalled += uninstallShare(days.reduce((most, messages) => Math.max(most, messages), 0))
    if (opens === undefined) continue
    for (const messages of days)
      opened += Math.min(1, engagementCurve.at(opens.parameters, messages) / messages)
  }
  uninstalled += Math.max(0, recipients - reached) * uninstallShare(0)
  const lost = uninstalled / recipients
  return {
    ...(opens && { opens: { count: Math.round(opened), share: opened / Math.max(1, delivered) } }),
    ...(uninstalls && {
      uninstalls: { count: Math.round(uninstalled), share: lost, timesUsual: lost / uninstalls.usual },
    }),
  }
}

const dayMs = 86_400_000

/** For each message, the number of messages in the fullest rolling day (half open) that holds it. */
export function fullestDays(unsorted: readonly number[]): number[] {
  const instants = unsorted.toSorted((a, b) => a - b)
  // The fullest day that ends with each message, and then for each message the fullest of those that begin before it.
  const first: number[] = []
  for (const [index, at] of instants.entries()) {
    let from = first.at(-1) ?? 0
    while (at - instants[from]! >= dayMs) from += 1
    first[index] = from
  }
  const days: number[] = []
  /** Ends of days that may still be the fullest for a message, the fullest first. */
  const ends: number[] = []
  let end = 0
  for (const index of instants.keys()) {
    for (; end < instants.length && first[end]! <= index; end += 1) {
      while (ends.length > 0 && sizeOf(ends.at(-1)!) <= sizeOf(end)) ends.pop()
      ends.push(end)
    }
    while (ends[0]! < index) ends.shift()
    days.push(sizeOf(ends[0]!))
  }
  return days

  function sizeOf(at: number): number {
    return at - first[at]! + 1
  }
}
