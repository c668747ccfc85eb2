/** Two gateways over one record in memory, in virtual time. */
import { createLocalHints } from '../../src/adapters/one-process.ts'
import { type Channel, channels } from '../../src/model.ts'
import type { Members, Role } from '../../src/ports/fleet.ts'
import type { LimitState, Provider, Store } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'
import { createHarness, type Harness, type HarnessOptions } from '../harness.ts'
import { overriding } from '../overriding.ts'

/** Comments are collected for ten minutes; two and more leave as one message. */
export const newsDigests = [
  {
    name: 'news',
    for: { template: 'new-comment' },
    window: '10min',
    minItems: 2,
    maxItems: 4,
    template: 'activity-digest',
  },
]

/** The time for which a right to send lasts, ms. */
export const rightMs = 250

/** A provider whose calls end when the test says so. */
function slowProvider(name: string, calls: { readonly by: string; readonly id: string }[]): Provider {
  return {
    name: 'sandbox',
    idempotent: false,
    channels: ['email'],
    send(message) {
      calls.push({ by: name, id: message.id })
      return name === 'a' ? new Promise<never>(() => {}) : Promise.resolve({ outcome: 'delivered' })
    },
    close: async () => {},
  }
}

/** A store that is never heard of again when a change is written. */
const withoutCommits = (store: Store): Store =>
  overriding(store, { commit: () => new Promise<never>(() => {}) })

export interface TwoProcessesOptions extends Pick<HarnessOptions, 'policy' | 'config'> {
  /** The configuration of the first process, where it has another. @defaultValue that of both */
  readonly configOfFirst?: HarnessOptions['config']
  /** The policy of the first process, where it has another. @defaultValue that of both */
  readonly policyOfFirst?: HarnessOptions['policy']
  /** Calls of the first process never end. */
  readonly hangs?: boolean
  /** How long after it was handed over a call of a process is written, ms. @defaultValue 0 */
  readonly writtenAfterMs?: Readonly<Record<string, number>>
  /** True if both count in the same limits. @defaultValue false */
  readonly sharesLimits?: boolean
  /** Stands between a process and its store. */
  readonly wrapStore?: (store: Store, id: string) => Store
  /** Stands between a process and the limits that both share. */
  readonly wrapShared?: (limits: LimitState, id: string) => LimitState
  /** How long the word of a call that is written late is on its way to the limits that both share, ms. @defaultValue 0 */
  readonly countedAfterMs?: number
  /** False where the first process accepts, and releases nothing. @defaultValue true */
  readonly claims?: boolean
  /** False where the first process dies before each of its commits. @defaultValue true */
  readonly commits?: boolean
  /** False where every hint is lost. @defaultValue true */
  readonly areTold?: boolean
}

export async function twoProcesses(options: TwoProcessesOptions = {}) {
  const {
    hangs = false,
    claims = true,
    commits = true,
    areTold = true,
    sharesLimits = false,
    countedAfterMs = 0,
    wrapStore = (store: Store) => store,
    wrapShared = (state: LimitState) => state,
    writtenAfterMs,
    configOfFirst,
    policyOfFirst,
    ...more
  } = options
  const clock = createVirtualClock(Date.UTC(2026, 10, 21, 12))
  const record = createMemoryRecord(rightMs)
  const listeners: ((gone: readonly string[]) => void)[] = []
  const calls: { readonly by: string; readonly id: string }[] = []
  /** Instants at which calls were written, of both. */
  const writtenAt: number[] = []
  let limits: LimitState | undefined
  const sharedOf = (own: LimitState): LimitState => ({
    ...own,
    mayKeepHolds: true,
    async force(requests) {
      if (countedAfterMs > 0)
        await new Promise<void>((resolve) => clock.at(clock.now() + countedAfterMs, resolve))
      return own.force(requests)
    },
  })
  function shared(own: LimitState): LimitState {
    limits ??= sharedOf(own)
    return limits
  }
  const lateProvider = (afterMs: number): Provider => ({
    name: 'sandbox',
    idempotent: false,
    tellsWritten: true,
    channels: ['email'],
    async send(_message, _account, _signal, onWritten) {
      if (onWritten?.('envelope') === false) return { outcome: 'failed', detail: 'too late' }
      if (afterMs > 0) await new Promise<void>((resolve) => clock.at(clock.now() + afterMs, resolve))
      if (onWritten?.() === false) return { outcome: 'failed', detail: 'too late' }
      writtenAt.push(clock.now())
      return { outcome: 'delivered' }
    },
    close: async () => {},
  })
  const hints = createLocalHints()
  const dead = new Set<string>()
  const holders = new Map<Role, string>()
  /** The channels that a process serves, by its name. */
  const served = new Map<string, readonly Channel[]>()
  const channelsIn = (config: HarnessOptions['config']): readonly Channel[] =>
    config !== undefined && 'pools' in config ? (Object.keys(config.pools as object) as Channel[]) : channels
  served.set('a', channelsIn(configOfFirst ?? more.config)).set('b', channelsIn(more.config))
  async function join(id: string, seed: number): Promise<Harness> {
    const members: Members = {
      id,
      count: () => 2 - dead.size,
      othersServe: (channel) =>
        [...served].some(([other, its]) => other !== id && !dead.has(other) && its.includes(channel)),
      policiesLeft: () => '',
      announcePolicy: async () => {},
      holds(role) {
        const holder = holders.get(role)
        if (holder === undefined || dead.has(holder)) holders.set(role, id)
        return holders.get(role) === id && !dead.has(id)
      },
      onDeath(listener) {
        listeners.push(listener)
        return () => {}
      },
      close: async () => {},
    }
    const providers = () => [slowProvider(id, calls)]
    const parts = {
      store: wrapStore(commits || id !== 'a' ? record.open(id) : withoutCommits(record.open(id)), id),
      members,
      ...(areTold ? { notifier: hints.join() } : {}),
      ...(sharesLimits ? { wrapState: (own: LimitState) => wrapShared(shared(own), id) } : {}),
      ...(writtenAfterMs && { providers: [lateProvider(writtenAfterMs[id] ?? 0)] }),
    }
    return await createHarness({
      clock,
      seed,
      parts,
      ...more,
      ...(configOfFirst !== undefined && id === 'a' ? { config: configOfFirst } : {}),
      ...(policyOfFirst !== undefined && id === 'a' ? { policy: policyOfFirst } : {}),
      ...(hangs ? { providers } : {}),
      ...(claims || id !== 'a' ? {} : { stages: false }),
    })
  }
  return {
    clock,
    calls,
    writtenAt,
    a: await join('a', 1),
    b: await join('b', 2),
    /** Another process, with the configuration of the second one. */
    join,
    /** The others find the process dead: its store takes nothing more from it. */
    declareDead(id: string) {
      record.declareDead(id)
      dead.add(id)
      for (const listener of listeners) listener([...dead])
    },
  }
}

/** Lets time pass until the promise is settled, at most ten seconds. */
export async function during<T>({ clock }: Harness, promise: Promise<T>): Promise<T> {
  let isOpen = true
  const watched = promise.finally(() => {
    isOpen = false
  })
  watched.catch(() => undefined)
  for (let steps = 0; isOpen && steps < 1_000; steps += 1) await clock.runUntil(clock.now() + 10)
  return await watched
}
