/** Compares three columns: what happened, the replay under the policy that was in force, and that under a new one. Pure. */
import type { Policy } from '../policy/policy.ts'
import { type Cell, cellsOf } from './cells.ts'
import { type Fate, type FateKind, fateKinds, recordedFate } from './fate.ts'
import { type Fidelity, fidelityMin, fidelityOf, isSameFate } from './fidelity.ts'
import type { Arrival, Replayed } from './run.ts'
import { requestsOf } from './run.ts'
import type { Traffic, TrafficLine } from './traffic.ts'

export interface Quantiles {
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly max: number
}

export interface Column {
  readonly name: string
  readonly policyVersion?: string
  readonly kinds: Readonly<Record<FateKind, number>>
  /** Messages that arrived in the period, digests included. */
  readonly messages: number
  readonly messagesByCategory: Readonly<Record<string, number>>
  /** Messages in each hour of the period. */
  readonly perHour: readonly number[]
  /** Delays from the request, or its `sendAt`, to when it leaves, ms. */
  readonly waitMs: Quantiles
  /** The number of requests that waited at most as long as each of `waitSteps`. */
  readonly waits: readonly number[]
  /** The number of days of a person with so many messages, by the number; days are those of UTC. */
  readonly perPersonAndDay: Readonly<Record<string, number>>
  readonly personDay: Quantiles
}

interface LimitChange {
  readonly limit: string
  /** Requests that it delayed, collected, moved or dropped. */
  readonly a: number
  readonly b: number
  /** People whom it concerned. */
  readonly peopleA: number
  readonly peopleB: number
}

interface PersonChange {
  readonly tenant: string
  readonly recipient: string
  readonly requests: number
  /** Requests whose decision differs. */
  readonly changed: number
  readonly messagesA: number
  readonly messagesB: number
  readonly longestWaitAMs: number
  readonly longestWaitBMs: number
}

export interface Comparison {
  readonly period: { readonly from: string; readonly to: string; readonly recordedAt: string }
  readonly requests: number
  /** Requests that stood in a throttle queue to the end, and so have no decision to compare. */
  readonly leftOut: number
  readonly people: number
  readonly sample: number
  readonly pseudonyms: boolean
  readonly warmUp: { readonly from: string; readonly availableFrom: string | null; readonly messages: number }
  readonly fidelity: Fidelity
  readonly happened: Column
  readonly a: Column
  readonly b: Column
  /** Requests by what becomes of them under A, then under B. */
  readonly matrix: Readonly<Record<FateKind, Readonly<Record<FateKind, number>>>>
  /** The requests behind the cells of the matrix. */
  readonly cells: readonly Cell[]
  /** People of whom a request waits longer than a day, under A and under B. */
  readonly peopleOverDay: { readonly a: number; readonly b: number }
  /** Requests whose decision differs between A and B, by category and by priority. */
  readonly changed: {
    readonly total: number
    readonly byCategory: Readonly<Record<string, number>>
    readonly byPriority: Readonly<Record<string, number>>
  }
  readonly limits: readonly LimitChange[]
  readonly mostChanged: readonly PersonChange[]
  readonly warnings: readonly string[]
  readonly notModelled: readonly string[]
}

export interface CompareOptions {
  readonly traffic: Traffic
  readonly a: { readonly name: string; readonly policy: Policy; readonly replayed: Replayed }
  readonly b: { readonly name: string; readonly policy: Policy; readonly replayed: Replayed }
}

const notModelled: readonly string[] = [
  'How people react: opens, clicks, opt-outs and complaints.',
  'Callers that would have posted again, or not at all.',
  'Preferences, addresses and time zones as they were then: those of today hold for the whole period.',
  'Providers: each message leaves when the policy lets it.',
  'Limits of tenants and modules: what waited for them is decided at the instant of its real turn.',
  'Limits per address: each recipient counts as one address on a channel.',
]

const hourMs = 3_600_000
const dayMs = 86_400_000
const peopleMax = 20
/** Waits on a logarithmic scale, ms: 1 s, 10 s, 1 min, 10 min, 1 h, 4 h, 12 h, 1 d, 2 d, 4 d, 7 d. */
export const waitSteps: readonly number[] = [
  1_000,
  10_000,
  60_000,
  600_000,
  hourMs,
  4 * hourMs,
  12 * hourMs,
  dayMs,
  2 * dayMs,
  4 * dayMs,
  7 * dayMs,
]

/** The delay that a person sees, from the request or its `sendAt`, ms; undefined where it never leaves. */
export function waitOf({ at, sendAt }: TrafficLine, fate: Fate | undefined): number | undefined {
  const leaves = fate?.leftAt ?? fate?.dueAt
  if (leaves === undefined) return undefined
  return Math.max(0, leaves - Math.max(Date.parse(at), sendAt === undefined ? 0 : Date.parse(sendAt)))
}

export function compareReplays({ traffic, a, b }: CompareOptions): Comparison {
  const { header, lines } = traffic
  const requests = requestsOf(traffic)
  const happened = happenedIn(traffic, requests)
  const fidelity = fidelityOf({
    header,
    policy: a.policy,
    requests,
    happened: happened.fates,
    replayed: a.replayed.fates,
  })
  const { matrix, changed, isChanged } = changesOf(requests, a.replayed.fates, b.replayed.fates)
  const ended = requests.filter(({ policyVersion }) => policyVersion !== a.policy.version).length
  const warmUpMessages = lines.filter(({ warmUp, leftAt }) => warmUp === true && leftAt !== undefined).length
  return {
    period: { from: header.from, to: header.to, recordedAt: header.recordedAt },
    requests: requests.length,
    leftOut: lines.filter((line) => line.warmUp !== true && line.isDigest !== true).length - requests.length,
    people: new Set(requests.map(personOf)).size,
    sample: header.sample,
    pseudonyms: header.pseudonyms,
    warmUp: { from: header.warmUpFrom, availableFrom: header.oldestAt ?? null, messages: warmUpMessages },
    fidelity,
    happened: columnOf(traffic, requests, { name: 'what happened', ...happened }),
    a: columnOf(traffic, requests, { name: a.name, policyVersion: a.policy.version, ...a.replayed }),
    b: columnOf(traffic, requests, { name: b.name, policyVersion: b.policy.version, ...b.replayed }),
    matrix,
    cells: cellsOf({ requests, a: a.replayed.fates, b: b.replayed.fates, isChanged }),
    peopleOverDay: {
      a: peopleOverDay(requests, a.replayed.fates),
      b: peopleOverDay(requests, b.replayed.fates),
    },
    changed,
    limits: limitsOf(requests, a.replayed.fates, b.replayed.fates),
    mostChanged: mostChangedOf(requests, a.replayed, b.replayed, isChanged),
    warnings: warningsOf(traffic, fidelity, ended, b.policy),
    notModelled,
  }
}

const personOf = ({ tenant, recipient }: { readonly tenant: string; readonly recipient: string }): string =>
  `${tenant}\n${recipient}`

function happenedIn({ header, lines }: Traffic, requests: readonly TrafficLine[]) {
  const leftOfDigest = new Map<string, number>()
  const arrivals: Arrival[] = []
  const [from, to] = [Date.parse(header.from), Date.parse(header.to)]
  for (const { isDigest, digest, leftAt, state, tenant, recipient, category } of lines) {
    if (leftAt === undefined || state === 'merged') continue
    const at = Date.parse(leftAt)
    if (isDigest === true && digest !== undefined) leftOfDigest.set(digest, at)
    if (from <= at && at < to) arrivals.push({ tenant, recipient, category, at })
  }
  return { fates: requests.map((line) => recordedFate(line, leftOfDigest)), arrivals }
}

interface ColumnParts extends Replayed {
  readonly name: string
  readonly policyVersion?: string
}

function columnOf({ header }: Traffic, requests: readonly TrafficLine[], parts: ColumnParts): Column {
  const { name, policyVersion, fates, arrivals } = parts
  const kinds = zeroes()
  for (const fate of fates) if (fate !== undefined) kinds[fate.kind] += 1
  const from = Date.parse(header.from)
  const perHour: number[] = new Array(Math.ceil((Date.parse(header.to) - from) / hourMs)).fill(0)
  const messagesByCategory: Record<string, number> = {}
  const personDays = new Map<string, number>()
  for (const arrival of arrivals) {
    perHour[Math.floor((arrival.at - from) / hourMs)]! += 1
    messagesByCategory[arrival.category] = (messagesByCategory[arrival.category] ?? 0) + 1
    const key = `${personOf(arrival)}\n${Math.floor(arrival.at / dayMs)}`
    personDays.set(key, (personDays.get(key) ?? 0) + 1)
  }
  const perPersonAndDay: Record<string, number> = {}
  for (const count of personDays.values()) perPersonAndDay[count] = (perPersonAndDay[count] ?? 0) + 1
  const waited = requests.flatMap((line, index) => waitOf(line, fates[index]) ?? [])
  return {
    name,
    ...(policyVersion === undefined ? {} : { policyVersion }),
    kinds,
    messages: arrivals.length,
    messagesByCategory,
    perHour,
    waitMs: quantilesOf(waited),
    waits: waitSteps.map((step) => waited.filter((wait) => wait <= step).length),
    perPersonAndDay,
    personDay: quantilesOf([...personDays.values()]),
  }
}

const zeroes = (): Record<FateKind, number> =>
  Object.fromEntries(fateKinds.map((kind) => [kind, 0])) as Record<FateKind, number>

function quantilesOf(values: readonly number[]): Quantiles {
  const sorted = Float64Array.from(values).sort()
  const quantile = (share: number): number => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0
  return { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99), max: quantile(1) }
}

type Fates = readonly (Fate | undefined)[]

function changesOf(requests: readonly TrafficLine[], a: Fates, b: Fates) {
  const matrix = Object.fromEntries(fateKinds.map((kind) => [kind, zeroes()])) as Record<
    FateKind,
    Record<FateKind, number>
  >
  const byCategory: Record<string, number> = {}
  const byPriority: Record<string, number> = {}
  const isChanged: boolean[] = []
  let total = 0
  for (const [index, { category, priority }] of requests.entries()) {
    const [one, other] = [a[index], b[index]]
    if (one !== undefined && other !== undefined) matrix[one.kind][other.kind] += 1
    isChanged[index] = !isSameWay(one, other)
    if (!isChanged[index]) continue
    total += 1
    byCategory[category] = (byCategory[category] ?? 0) + 1
    byPriority[priority] = (byPriority[priority] ?? 0) + 1
  }
  return { matrix, changed: { total, byCategory, byPriority }, isChanged }
}

/** True if a person sees no difference; limits may have other names in another policy. */
export function isSameWay(one: Fate | undefined, other: Fate | undefined): boolean {
  if (one === undefined || other === undefined) return one === other
  const { limit: _, ...seen } = one
  const { limit: __, ...seenThen } = other
  return isSameFate({ ...seen, reason: '' }, { ...seenThen, reason: '' })
}

function peopleOverDay(requests: readonly TrafficLine[], fates: Fates): number {
  const waiting = requests.filter((line, index) => (waitOf(line, fates[index]) ?? 0) > dayMs)
  return new Set(waiting.map(personOf)).size
}

function limitsOf(requests: readonly TrafficLine[], a: Fates, b: Fates): readonly LimitChange[] {
  const counts = new Map<string, [Set<string>, Set<string>, number, number]>()
  const note = (fate: Fate | undefined, line: TrafficLine, side: 0 | 1): void => {
    if (fate?.limit === undefined) return
    const row = counts.get(fate.limit) ?? [new Set(), new Set(), 0, 0]
    counts.set(fate.limit, row)
    row[side].add(personOf(line))
    row[side === 0 ? 2 : 3] += 1
  }
  for (const [index, line] of requests.entries()) {
    note(a[index], line, 0)
    note(b[index], line, 1)
  }
  return [...counts]
    .map(([limit, [peopleA, peopleB, inA, inB]]) => ({
      limit,
      a: inA,
      b: inB,
      peopleA: peopleA.size,
      peopleB: peopleB.size,
    }))
    .sort((one, other) => Math.max(other.a, other.b) - Math.max(one.a, one.b))
}

function mostChangedOf(
  requests: readonly TrafficLine[],
  a: Replayed,
  b: Replayed,
  isChanged: readonly boolean[],
): readonly PersonChange[] {
  const people = new Map<string, { -readonly [K in keyof PersonChange]: PersonChange[K] }>()
  for (const [index, line] of requests.entries()) {
    const { tenant, recipient } = line
    const key = personOf(line)
    const known = people.get(key) ?? {
      tenant,
      recipient,
      requests: 0,
      changed: 0,
      messagesA: 0,
      messagesB: 0,
      longestWaitAMs: 0,
      longestWaitBMs: 0,
    }
    people.set(key, known)
    known.requests += 1
    if (isChanged[index] === true) known.changed += 1
    known.longestWaitAMs = Math.max(known.longestWaitAMs, waitOf(line, a.fates[index]) ?? 0)
    known.longestWaitBMs = Math.max(known.longestWaitBMs, waitOf(line, b.fates[index]) ?? 0)
  }
  for (const arrival of a.arrivals) {
    const person = people.get(personOf(arrival))
    if (person !== undefined) person.messagesA += 1
  }
  for (const arrival of b.arrivals) {
    const person = people.get(personOf(arrival))
    if (person !== undefined) person.messagesB += 1
  }
  return [...people.values()]
    .filter(({ changed }) => changed > 0)
    .sort((one, other) => other.changed - one.changed || (one.recipient < other.recipient ? -1 : 1))
    .slice(0, peopleMax)
}

function warningsOf(
  { header }: Traffic,
  fidelity: Fidelity,
  otherPolicy: number,
  b: Policy,
): readonly string[] {
  const warnings: string[] = []
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  if (fidelity.share < fidelityMin)
    warnings.push(
      `Only ${percent(fidelity.share)} of the decisions are repeated: differences between the policies that are smaller than that mean nothing.`,
    )
  if (otherPolicy > 0)
    warnings.push(
      `${percent(otherPolicy / Math.max(1, fidelity.compared))} of the requests were decided under another version of the policy than the one replayed as the policy in force.`,
    )
  const needed = Date.parse(header.from) - b.longestWindowMs
  if (header.oldestAt === undefined || Date.parse(header.oldestAt) > needed)
    warnings.push(
      `The longest window of the new policy looks back to ${new Date(needed).toISOString()}, and the record begins ${header.oldestAt === undefined ? 'later' : `at ${header.oldestAt}`}: at first its limits see less than they would have.`,
    )
  if (header.category !== undefined)
    warnings.push(
      `Only the category ${header.category} is in the traffic: limits over several see nothing else.`,
    )
  return warnings
}
