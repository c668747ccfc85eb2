/**
 * How well a replay under the policy that was in force repeats what happened. Each difference is explained by what is
 * known of it; what nothing explains is said too. Pure.
 */
import type { Policy } from '../policy/policy.ts'
import type { Fate } from './fate.ts'
import { atOnceMs } from './fate.ts'
import { pseudonymOf, spreadSteps, type TrafficHeader, type TrafficLine } from './traffic.ts'

export const explanations = {
  other_policy: 'decided under another version of the policy',
  provider: 'a provider refused, failed or was slow',
  operator: 'an operator or the complaint guard held it',
  preferences: 'opt-outs, addresses or quiet hours have changed since',
  edge: 'its digest was open when the period began or ended',
  spread: 'another offset after quiet hours, which is known in steps only',
  follows: 'follows from an earlier difference of the same person',
  unexplained: 'not explained',
} as const
export type Explanation = keyof typeof explanations

export interface Fidelity {
  readonly compared: number
  readonly equal: number
  /** The share of equal decisions, from 0 to 1; 1 where there are none. */
  readonly share: number
  readonly differences: Readonly<Partial<Record<Explanation, number>>>
  /** The first differences of each explanation. */
  readonly examples: readonly {
    readonly id: string
    readonly at: string
    readonly why: Explanation
    readonly happened: string
    readonly replayed: string
  }[]
}

/** Below this share the comparison is shown with a warning. */
export const fidelityMin = 0.95
const examplesMax = 3

/** True if both say the same: what becomes of it, why, on which channel, and when. */
export function isSameFate(one: Fate, other: Fate, toleranceMs: number = atOnceMs): boolean {
  return (
    one.kind === other.kind &&
    one.channel === other.channel &&
    one.reason === other.reason &&
    one.limit === other.limit &&
    Math.abs((one.dueAt ?? 0) - (other.dueAt ?? 0)) <= toleranceMs
  )
}

const ofHours: ReadonlySet<string | undefined> = new Set(['quiet_hours', 'legal_hours'])
const ofPreferences: ReadonlySet<string | undefined> = new Set(['opted_out', 'invalid_address'])

export interface FidelityOptions {
  readonly header: TrafficHeader
  readonly policy: Policy
  readonly requests: readonly TrafficLine[]
  readonly happened: readonly Fate[]
  readonly replayed: readonly (Fate | undefined)[]
}

export function fidelityOf(options: FidelityOptions): Fidelity {
  const { header, policy, requests, happened, replayed } = options
  // Under pseudonyms the offset after quiet hours is known in steps, and what waits behind it moves as much.
  const toleranceMs = atOnceMs + (header.pseudonyms ? Math.ceil((2 * policy.spreadMs) / spreadSteps) : 0)
  const differences: Partial<Record<Explanation, number>> = {}
  const examples: Fidelity['examples'][number][] = []
  const differed = new Set<string>()
  let equal = 0
  for (const [index, line] of requests.entries()) {
    const one = happened[index]!
    const other = replayed[index]
    if (other !== undefined && isSameFate(one, other, toleranceMs)) {
      equal += 1
      continue
    }
    const why = explain(options, line, one, other, differed)
    differed.add(`${line.tenant}\n${line.recipient}`)
    const known = differences[why] ?? 0
    differences[why] = known + 1
    if (known < examplesMax)
      examples.push({
        id: pseudonymOf(line.id),
        at: line.at,
        why,
        happened: textOf(one),
        replayed: textOf(other),
      })
  }
  const compared = requests.length
  return { compared, equal, share: compared === 0 ? 1 : equal / compared, differences, examples }
}

function explain(
  { header, policy }: FidelityOptions,
  line: TrafficLine,
  one: Fate,
  other: Fate | undefined,
  differed: ReadonlySet<string>,
): Explanation {
  if (line.policyVersion !== policy.version) return 'other_policy'
  if (line.trouble !== undefined) return line.trouble
  if (ofPreferences.has(one.reason) !== ofPreferences.has(other?.reason)) return 'preferences'
  if (differed.has(`${line.tenant}\n${line.recipient}`)) return 'follows'
  if (one.kind === 'digest' || other?.kind === 'digest') {
    const longestMs = Math.max(0, ...policy.digests.map(({ windowMs }) => windowMs))
    const at = Date.parse(line.at)
    if (at < Date.parse(header.from) + longestMs || at + longestMs >= Date.parse(header.to)) return 'edge'
  }
  if (ofHours.has(one.reason) !== ofHours.has(other?.reason)) return 'preferences'
  const apartMs = Math.abs((one.dueAt ?? 0) - (other?.dueAt ?? Number.POSITIVE_INFINITY))
  if (header.pseudonyms && apartMs <= policy.spreadMs) return 'spread'
  return 'unexplained'
}

/** Formats a fate in a line: `delayed until 2026-11-22T08:03:10.000Z (recipient_limit, product-email)`. */
function textOf(fate: Fate | undefined): string {
  if (fate === undefined) return 'not decided'
  const { kind, dueAt, reason, limit } = fate
  const until = dueAt === undefined || kind === 'at_once' ? '' : ` until ${new Date(dueAt).toISOString()}`
  const why = [reason, limit].filter((part) => part !== undefined).join(', ')
  return `${kind.replace('_', ' ')}${until}${why === '' ? '' : ` (${why})`}`
}
