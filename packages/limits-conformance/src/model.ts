/**
 * The limiter told slowly and to the letter: a list of entries, and every question answered by counting. It shares
 * no mathematics with the real stores (no blocks, no intervals, no sorted logs) and is what they are compared with.
 * It keeps everything for ever and is meant for tests only.
 */

import type { ForbiddenInterval, Plan, PlanRule } from '@sluice/limits'
import {
  type BlockChange,
  type Decision,
  decisionOf,
  type Question,
  type RestoredEntry,
  type RuleRow,
  type Store,
} from '@sluice/limits'

/** The id of a block among the evicted: no caller's id is empty. */
const blockId = ''

interface ModelEntry {
  readonly id: string | undefined
  readonly at: number
  readonly weight: number
  readonly fired: boolean
  readonly low: boolean
  readonly streams: readonly string[]
}

type Entries = readonly ModelEntry[]

/** The content of the model, for oracles that count windows themselves. */
export interface ModelStore extends Store {
  entries(subject: string): Entries
}

export function modelStore(options: { readonly now: () => number }): ModelStore {
  const subjects = new Map<string, Entries>()
  const entriesOf = (subject: string): Entries => subjects.get(subject) ?? []

  function keep(subject: string, entries: Entries): void {
    // An entry without a name and a stream has left nothing behind.
    const known = entries.filter(({ id, streams }) => id !== undefined || streams.length > 0)
    if (known.length === 0) subjects.delete(subject)
    else subjects.set(subject, known)
  }

  function decide(question: Question): Decision {
    const { decision, entries } = answer(question, entriesOf(question.subject), options.now())
    keep(question.subject, entries)
    return decision
  }

  function restore(subject: string, restored: readonly RestoredEntry[]): void {
    for (const { id, at, fired, streams, weight = 1 } of restored) {
      const entries = entriesOf(subject)
      if (!entries.some((entry) => entry.id === id))
        keep(subject, [...entries, { id, at, fired, streams, weight, low: false }])
    }
  }

  function cancel(subject: string, id: string): boolean {
    const entries = entriesOf(subject)
    keep(
      subject,
      entries.filter((entry) => entry.id !== id),
    )
    return entriesOf(subject).length < entries.length
  }

  function block(subject: string, ms: number, now: number): BlockChange {
    const entries = entriesOf(subject)
    const kept = entries.filter((entry) => entry.id !== blockId)
    const until = now + ms
    const one = { id: blockId, at: until, weight: 1, fired: true, low: false, streams: [] }
    keep(subject, ms === 0 ? kept : [...kept, one])
    return { stood: entries.some((entry) => entry.id === blockId && entry.at > now), until }
  }

  return {
    entries: entriesOf,
    decide: async (questions) => questions.map(decide),
    cancel: async (places) => places.map(({ subject, id }) => cancel(subject, id)),
    async restore(batches) {
      for (const { subject, entries } of batches) restore(subject, entries)
    },
    block: async (blocks) => blocks.map(({ subject, ms }) => block(subject, ms, options.now())),
    async forget(names) {
      for (const name of names) subjects.delete(name)
    },
    has: async (names) => names.map((name) => subjects.has(name)),
  }
}

interface Answer {
  readonly decision: Decision
  readonly entries: Entries
}

function answer(question: Question, entries: Entries, now: number): Answer {
  const { kind, plan, id, terms } = question
  const own = id === undefined ? undefined : entries.find((entry) => entry.id === id)
  const others = entries.filter((entry) => entry !== own)
  const books = kind === 'reserve' || kind === 'preview'
  const repeated = own !== undefined && (books || (kind === 'take' && own.fired))
  const weight = own?.weight ?? terms.weight
  const start = Math.max(now, terms.notBefore)
  const blockedUntil = entries.find((entry) => entry.id === blockId && entry.at > now)?.at
  const blocks = blockedUntil === undefined ? [] : [{ from: 0, to: blockedUntil }]
  const forbidden = [...terms.forbidden, ...blocks]
  const firstAt = outside(forbidden, start)
  const used = plan.rules.map((rule) => usedIn(rule, plan, others, now))
  const ask: Ask = { plan, weight, forbidden, firstAt }

  /** The entries that the question is judged against. */
  let judged = kind === 'fire' ? others.filter((entry) => entry.fired) : others
  let evicted: Entries = []
  let verdict = judge(ask, judged, books)
  if (books && !repeated && terms.priority === 'high' && verdict.refusing.length > 0) {
    const room = makeRoom(ask, judged)
    const gains = room.verdict.at < (verdict.refuser === undefined ? verdict.at : Number.POSITIVE_INFINITY)
    if (room.verdict.refuser === undefined && gains && room.verdict.at - start <= terms.horizonMs) {
      evicted = room.evicted
      judged = judged.filter((entry) => !evicted.includes(entry))
      verdict = room.verdict
    }
  }
  let at = repeated ? own.at : kind === 'force' ? now : verdict.at
  const refuser = repeated || !books ? undefined : verdict.refuser

  const countsNow = kind === 'force' || ((kind === 'take' || kind === 'fire') && !repeated && at === now)
  const inHorizon = at < Number.POSITIVE_INFINITY && at - start <= terms.horizonMs
  const booked =
    kind === 'fire'
      ? !countsNow && at < Number.POSITIVE_INFINITY
      : books && inHorizon && refuser === undefined
  let kept: Entries = others.filter((entry) => kind !== 'reserve' || !evicted.includes(entry))
  let shown: Entries = others.filter((entry) => !evicted.includes(entry))
  if (kind === 'take' && !countsNow && !repeated && plan.countRefused.length > 0) {
    const streams = plan.countRefused.map((index) => plan.streams[index]!)
    const attempt = { id: undefined, at: now, weight, fired: true, low: false, streams }
    kept = [...kept, attempt]
    shown = [...shown, attempt]
    judged = [...judged, attempt]
    at = judge(ask, judged, false).at
  }
  const limit = refuser ?? (at > (repeated ? now : firstAt) ? decider(ask, judged, at) : undefined)

  let entry = own
  const place = { id, weight, streams: plan.streams, low: terms.priority === 'low' }
  if (countsNow) entry = { ...place, at: now, fired: true, low: own?.low ?? false }
  else if (kind === 'fire')
    entry = booked ? { ...place, at, fired: false, low: own?.low ?? false } : undefined
  else if (booked && !repeated && kind === 'reserve') entry = { ...place, at, fired: terms.firm }

  const counted = entry?.fired === true && entry.at <= now
  const rows = rowsOf(ask, used, verdict.refusing, counted ? [...shown, entry!] : shown, now)
  const held = kind !== 'check' && (repeated || countsNow || booked)
  const decision = decisionOf(
    {
      allowed: books ? held && at <= now : kind === 'check' ? at === now : repeated || countsNow,
      held,
      moved: countsNow && own?.fired === true,
      fired: held && (countsNow || (repeated ? own.fired : books && terms.firm)),
      at,
      now,
      limit,
      firstAt,
      refusedBy: [...new Set(verdict.refusing.map((rule) => rule.limit))],
      evicted: evicted.map((one) => one.id!),
      blockedUntil,
    },
    rows,
  )
  return { decision, entries: entry === undefined ? kept : [...kept, entry] }
}

interface Ask {
  readonly plan: Plan
  readonly weight: number
  readonly forbidden: readonly ForbiddenInterval[]
  readonly firstAt: number
}

interface Verdict {
  readonly at: number
  readonly refusing: readonly PlanRule[]
  readonly refuser: string | undefined
}

function judge(ask: Ask, entries: Entries, books: boolean): Verdict {
  const refusing = ask.plan.rules.filter((rule) => !admits(ask, rule, entries, ask.firstAt))
  const refuser = books ? refusing.find((rule) => rule.refuse)?.limit : undefined
  return { at: firstFeasible(ask, entries), refusing, refuser }
}

interface Batch {
  readonly at: number
  readonly weight: number
}

/**
 * How many stand in the fullest window that holds t. Windows that hold t begin in (t − W, t]; the fullest begins at an
 * instant of the stream, or at t.
 */
function fullest(windowMs: number, batches: readonly Batch[], t: number): number {
  const near = batches.filter(({ at }) => at > t - windowMs && at < t + windowMs)
  let most = 0
  for (const from of [t, ...near.map(({ at }) => at)]) {
    if (from > t) continue
    let count = 0
    for (const { at, weight } of near) if (at >= from && at < from + windowMs) count += weight
    most = Math.max(most, count)
  }
  return most
}

function admits(ask: Ask, rule: PlanRule, entries: Entries, t: number): boolean {
  return fullest(rule.windowMs, batchesOf(ask.plan, rule, entries), t) + ask.weight <= rule.max
}

/** Tries the only instants at which anything can change: the start, and a window's length after each entry. */
function firstFeasible(ask: Ask, entries: Entries): number {
  const rules = ask.plan.rules.map((rule) => ({ rule, batches: batchesOf(ask.plan, rule, entries) }))
  const changes = rules.flatMap(({ rule, batches }) => batches.map(({ at }) => at + rule.windowMs))
  const feasible = (t: number): boolean =>
    rules.every(({ rule, batches }) => fullest(rule.windowMs, batches, t) + ask.weight <= rule.max)
  let t = ask.firstAt
  for (;;) {
    const from = t
    const candidates = [from, ...changes.filter((instant) => instant > from).sort((a, b) => a - b)]
    t = candidates.find(feasible) ?? Number.POSITIVE_INFINITY
    const open = outside(ask.forbidden, t)
    if (open === t) return t
    t = open
  }
}

/** The first limit that would still refuse a millisecond earlier. */
function decider(ask: Ask, entries: Entries, at: number): string | undefined {
  if (at === Number.POSITIVE_INFINITY) return ask.plan.rules.find((rule) => rule.max < ask.weight)?.limit
  return ask.plan.rules.find((rule) => admits(ask, rule, entries, at) && !admits(ask, rule, entries, at - 1))
    ?.limit
}

function makeRoom(ask: Ask, entries: Entries): { readonly verdict: Verdict; readonly evicted: Entries } {
  const inTheWay = entries
    .filter(
      (entry) =>
        entry.low && !entry.fired && entry.streams.some((stream) => ask.plan.streams.includes(stream)),
    )
    .sort((a, b) => a.at - b.at || (a.id! < b.id! ? -1 : 1))
  let kept = entries.filter((entry) => !inTheWay.includes(entry))
  const { at } = judge(ask, kept, true)
  const evicted: ModelEntry[] = []
  for (const entry of inTheWay) {
    const crowded = [...kept, entry]
    const inNobodysWay = ask.plan.rules.every((rule) => admits(ask, rule, crowded, at))
    const refuses = inNobodysWay && judge(ask, crowded, true).refuser !== undefined
    if (inNobodysWay && !refuses) kept = crowded
    else evicted.push(entry)
  }
  return { verdict: { ...judge(ask, kept, true), at }, evicted }
}

function outside(forbidden: readonly ForbiddenInterval[], t: number): number {
  const holding = forbidden.filter(({ from, to }) => from <= t && t < to)
  if (holding.length === 0) return t
  return outside(forbidden, Math.max(...holding.map(({ to, resumeAt = to }) => resumeAt)))
}

function batchesOf(plan: Plan, rule: PlanRule, entries: Entries): readonly Batch[] {
  return entries.filter((entry) => entry.streams.includes(plan.streams[rule.stream]!))
}

function sumOf(batches: readonly Batch[], holds: (at: number) => boolean): number {
  let sum = 0
  for (const { at, weight } of batches) if (holds(at)) sum += weight
  return sum
}

function usedIn(rule: PlanRule, plan: Plan, entries: Entries, now: number): number {
  const fired = entries.filter((entry) => entry.fired)
  return sumOf(batchesOf(plan, rule, fired), (at) => at > now - rule.windowMs && at <= now)
}

function rowsOf(
  ask: Ask,
  used: readonly number[],
  refusing: readonly PlanRule[],
  entries: Entries,
  now: number,
): RuleRow[] {
  const one = { ...ask, weight: 1, forbidden: [], firstAt: now }
  return ask.plan.rules.map((rule, index) => {
    const all = batchesOf(ask.plan, rule, entries)
    const counted = batchesOf(
      ask.plan,
      rule,
      entries.filter((entry) => entry.fired),
    )
    const booked = batchesOf(
      ask.plan,
      rule,
      entries.filter((entry) => !entry.fired),
    )
    const inWindow = counted.filter(({ at }) => at > now - rule.windowMs && at <= now)
    return {
      limit: rule.limit,
      window: rule.text,
      used: used[index]!,
      max: rule.maxWritten,
      remaining: Math.max(0, rule.maxWritten - sumOf(inWindow, () => true)),
      available: Math.max(0, rule.maxWritten - fullest(rule.windowMs, all, now)),
      reserved: sumOf(booked, (at) => at > now - rule.windowMs) + sumOf(counted, (at) => at > now),
      freesAt: firstFeasible({ ...one, plan: { ...ask.plan, rules: [rule] } }, entries),
      resetAt: inWindow.length === 0 ? now : Math.min(...inWindow.map(({ at }) => at)) + rule.windowMs,
      admits: !refusing.includes(rule),
    }
  })
}
