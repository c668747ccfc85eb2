/**
 * The provider's side of a call: accounts with hard rates, exact rolling counts, blocks, latency and mishaps. It
 * decides the outcome of each call and records it; the adapter in this process or the server (server.ts) tells the
 * caller. Its clock and its chances come from outside.
 */
import type { Clock, Random } from '../ports.ts'
import {
  checkBehaviour,
  type Fate,
  fates,
  latencyOf,
  mishapOf,
  type SandboxBehaviour,
  type SandboxPhase,
  type SandboxRate,
} from './behaviour.ts'
import {
  arrives,
  CallRing,
  RollingCount,
  type SandboxCall,
  type SandboxCounters,
  type SandboxFilter,
  type SandboxMessage,
} from './record.ts'

export interface FakeProviderOptions<M extends SandboxMessage> {
  readonly clock: Pick<Clock, 'now'>
  /** Source of its chances. @defaultValue a generator of its own, started by `seed` */
  readonly random?: Pick<Random, 'next'>
  /** Start of the generator. @defaultValue 1 */
  readonly seed?: number
  /** Behaviour of every account that has none of its own. @defaultValue delivers everything at once */
  readonly behaviour?: SandboxBehaviour
  /** Behaviours by account id. */
  readonly accounts?: Readonly<Record<string, SandboxBehaviour>>
  /** Behaviours for a period; of several at the same time, the last one wins. */
  readonly phases?: readonly SandboxPhase[]
  /** Decides about single calls; undefined leaves a call to the behaviour. */
  readonly script?: (call: ScriptedCall<M>) => Fate | undefined
  /** Calls kept for `calls` and `received`. @defaultValue 10_000 */
  readonly keep?: number
  /** True when it drops a repetition of an id that had arrived among the last `keep` calls. @defaultValue false */
  readonly idempotent?: boolean
}

interface ScriptedCall<M extends SandboxMessage> {
  readonly message: M
  readonly account: string
  readonly now: number
  /** Number of this call of its account, from 1. */
  readonly number: number
}

/** The outcome of a call. */
interface Judgement {
  readonly fate: Fate
  /** `Retry-After` to the letter; '' where there is none. */
  readonly retryAfter: string
  /** Time until the answer, ms. */
  readonly delayMs: number
}

export interface FakeProvider<M extends SandboxMessage> {
  /** Counts a call that arrives now, and decides its outcome. */
  receive(message: M, account: string): Judgement
  /** The last calls, oldest first. */
  calls(filter?: SandboxFilter): readonly SandboxCall<M>[]
  /** The last calls that reached their recipient. */
  received(filter?: SandboxFilter): readonly SandboxCall<M>[]
  /** Counters since the beginning, of one account or of all. */
  counters(account?: string): SandboxCounters
  /** Accounts that have been called. */
  accounts(): readonly string[]
  /** Changes the behaviour from now on; without an account, of all that have no behaviour of their own. */
  behave(behaviour: SandboxBehaviour, account?: string): void
  /** Forgets the calls and counters, but neither the behaviour nor the counts of the rates. */
  clear(): void
}

/** One account as the provider sees it. */
interface Side {
  readonly id: string
  /** Behaviour outside of phases. */
  base: SandboxBehaviour
  /** Every rate that may apply at some time: each counts all along, so that a change of phase forgets nothing. */
  readonly counts: Map<SandboxRate, RollingCount>
  blockedUntil: number
  counters: Tally
}

type Tally = { calls: number; arrived: number; whileBlocked: number; fates: Record<Fate, number> }

const nothing: SandboxBehaviour = {}
const deliveredAtOnce: Judgement = { fate: 'deliver', retryAfter: '', delayMs: 0 }

export function createFakeProvider<M extends SandboxMessage>(
  options: FakeProviderOptions<M>,
): FakeProvider<M> {
  const { clock, script, phases = [], keep = 10_000, idempotent = false } = options
  let general = checkBehaviour(options.behaviour ?? nothing, 'behaviour')
  const own = new Map(Object.entries(options.accounts ?? {}))
  for (const [id, behaviour] of own) checkBehaviour(behaviour, `accounts.${id}`)
  phases.forEach((phase, index) => void checkBehaviour(phase.behaviour, `phases[${index}]`))
  const random = options.random ?? createChance(options.seed ?? 1)
  const bornAt = clock.now()
  const ring = new CallRing<M>(keep)
  const taken = idempotent ? new Map<string, true>() : undefined
  const sides = new Map<string, Side>()

  function sideOf(id: string): Side {
    let side = sides.get(id)
    if (side === undefined) {
      side = {
        id,
        base: own.get(id) ?? general,
        counts: new Map(),
        blockedUntil: Number.NEGATIVE_INFINITY,
        counters: emptyTally(),
      }
      sides.set(id, side)
      for (const behaviour of [side.base, ...phases.map((phase) => phase.behaviour)])
        countFor(side, behaviour)
    }
    return side
  }

  function countFor(side: Side, { rates = [], slowDown }: SandboxBehaviour): void {
    for (const rate of slowDown === undefined ? rates : [...rates, slowDown.above]) {
      if (!side.counts.has(rate)) side.counts.set(rate, new RollingCount(rate))
    }
  }

  function behaviourOf(side: Side, now: number): SandboxBehaviour {
    let behaviour = side.base
    const sinceMs = now - bornAt
    for (const phase of phases) {
      if (sinceMs < phase.fromMs || sinceMs >= phase.toMs) continue
      if (phase.accounts === undefined || phase.accounts.includes(side.id)) behaviour = phase.behaviour
    }
    return behaviour
  }

  function delayOf(side: Side, { latency, slowDown }: SandboxBehaviour, now: number): number {
    const usual =
      typeof latency === 'object' ? latencyOf(latency, random.next(), random.next()) : (latency ?? 0)
    // The call itself is already counted: the window is full from the call after `max` on.
    const crowded = slowDown !== undefined && side.counts.get(slowDown.above)!.isOver(now)
    return crowded ? usual * slowDown.factor : usual
  }

  function fateOf(side: Side, behaviour: SandboxBehaviour, message: M, now: number): Fate {
    const scripted = script?.({ message, account: side.id, now, number: side.counters.calls + 1 })
    if (scripted !== undefined) return scripted
    if (now < side.blockedUntil) return 'rate_limit'
    for (const rate of behaviour.rates ?? []) if (side.counts.get(rate)!.freeAt() > now) return 'rate_limit'
    for (const count of side.counts.values()) count.add(now)
    return behaviour.odds === undefined ? 'deliver' : (mishapOf(behaviour.odds, random.next()) ?? 'deliver')
  }

  /** Computes `Retry-After` as it will be answered; '' for none. The account stays blocked for as long as it says. */
  function block(side: Side, behaviour: SandboxBehaviour, now: number): string {
    const freeAt = Math.max(
      side.blockedUntil,
      ...(behaviour.rates ?? []).map((rate) => side.counts.get(rate)!.freeAt()),
    )
    const seconds = Number.isFinite(freeAt) ? Math.max(1, Math.ceil((freeAt - now) / 1000)) : 1
    const text = behaviour.retryAfter ?? String(seconds)
    const saidMs = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
    if (saidMs > 0) side.blockedUntil = Math.max(side.blockedUntil, now + saidMs)
    return text
  }

  function note(side: Side, message: M, fate: Fate, now: number): void {
    const arrived = arrives(fate) && !taken?.has(message.id)
    const { counters } = side
    counters.calls += 1
    counters.fates[fate] += 1
    if (now < side.blockedUntil) counters.whileBlocked += 1
    if (arrived) {
      counters.arrived += 1
      taken?.set(message.id, true)
      if (taken !== undefined && taken.size > keep) taken.delete(taken.keys().next().value!)
    }
    ring.add({ at: now, account: side.id, message, fate, arrived })
  }

  return {
    receive(message, account) {
      const now = clock.now()
      const side = sideOf(account)
      const behaviour = phases.length === 0 ? side.base : behaviourOf(side, now)
      if (behaviour === nothing && script === undefined) {
        note(side, message, 'deliver', now)
        return deliveredAtOnce
      }
      const fate = fateOf(side, behaviour, message, now)
      note(side, message, fate, now)
      const retryAfter = fate === 'rate_limit' ? block(side, behaviour, now) : ''
      return { fate, retryAfter, delayMs: delayOf(side, behaviour, now) }
    },
    calls: (filter = {}) => ring.find(filter, false),
    received: (filter = {}) => ring.find(filter, true),
    counters: (account) =>
      sum([...sides.values()].filter((side) => account === undefined || side.id === account)),
    accounts: () => [...sides.keys()],
    behave(behaviour, account) {
      checkBehaviour(behaviour, 'behaviour')
      if (account === undefined) general = behaviour
      else own.set(account, behaviour)
      for (const side of sides.values()) {
        if (account === undefined ? own.has(side.id) : side.id !== account) continue
        side.base = behaviour
        countFor(side, behaviour)
      }
    },
    clear() {
      ring.clear()
      for (const side of sides.values()) side.counters = emptyTally()
    },
  }
}

function emptyTally(): Tally {
  return {
    calls: 0,
    arrived: 0,
    whileBlocked: 0,
    fates: Object.fromEntries(fates.map((fate) => [fate, 0])) as Record<Fate, number>,
  }
}

function sum(sides: readonly Side[]): SandboxCounters {
  const total = emptyTally()
  for (const { counters } of sides) {
    total.calls += counters.calls
    total.arrived += counters.arrived
    total.whileBlocked += counters.whileBlocked
    for (const fate of Object.keys(total.fates) as Fate[]) total.fates[fate] += counters.fates[fate]
  }
  return total
}

/** Mulberry32: 32 bits of state are plenty for chances in a test, and any seed starts it. */
function createChance(seed: number): Pick<Random, 'next'> {
  let state = seed >>> 0
  return {
    next() {
      state = (state + 0x6d2b79f5) >>> 0
      let mixed = Math.imul(state ^ (state >>> 15), state | 1)
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
    },
  }
}
