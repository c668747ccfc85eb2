/**
 * Makes the settings of a run of several gateways from its seed: those of one, and what happens to the engines that they
 * share. A kill, a pause or a stop meets one of them. Half of the seeds concentrate on one kind of trouble, with traffic
 * that shows it.
 */
import type { Span } from './oracle-calm.ts'
import { recipients, type Settings, second, settingsOf } from './settings.ts'
import type { Strike } from './strike.ts'
import { drawOf } from './world.ts'

interface Timed {
  readonly at: number
}

/** An operator may hold the tenant, a client may cancel the notification or opt its recipient out. */
export type AmbushOrder = 'cancel' | 'opt-out' | 'hold'

/** A pause that strikes when a process has the next right to send, and the order that a client gives of another one meanwhile. */
interface Ambush extends Timed {
  readonly forMs: number
  readonly order: AmbushOrder
  /** The pause begins before the right arrives, not behind it. */
  readonly isBeforeAnswer: boolean
}

/**
 * A seed concentrates on nothing; on losses of engines under traffic for few; deaths at calls of the provider and
 * pauses until a process is declared dead; pauses between a right and its call, and what clients ask then; accounts that
 * fail.
 */
export type Focus = 'none' | 'losses' | 'deaths' | 'rights' | 'accounts'

export interface FleetSettings {
  readonly settings: Settings
  readonly gateways: number
  readonly focus: Focus
  readonly ambushes: readonly Ambush[]
  /** @defaultValue none */
  readonly strikes?: readonly Strike[]
  /** A process that is stopped goes on when the others have declared it dead. @defaultValue false */
  readonly wakesAtDeath?: boolean
  readonly engines: {
    /** The server of limits loses everything and goes on. */
    readonly flushes: readonly Timed[]
    readonly restarts: readonly (Timed & { readonly downMs: number })[]
    readonly failOvers: readonly (Timed & { readonly lostMs: number; readonly deposedMs: number })[]
    /** The record crashes and is away for so long. */
    readonly crashes: readonly (Timed & { readonly downMs: number })[]
  }
}

/** Returns what a seed concentrates on. */
export function focusOf(seed: number): Focus {
  // A seed without any fault stays so.
  if (settingsOf(seed).faults.phases.length === 0) return 'none'
  const draw = drawOf(seed, 'fleet focus')
  if (draw < 0.5) return 'none'
  if (draw < 0.65) return 'losses'
  if (draw < 0.77) return 'deaths'
  return draw < 0.9 ? 'rights' : 'accounts'
}

export function fleetSettingsOf(seed: number, gateways: number): FleetSettings {
  const alone = settingsOf(seed)
  const focus = focusOf(seed)
  const draw = (key: string): number => drawOf(seed, `fleet ${key}`)
  const between = (key: string, least: number, most: number): number =>
    least + Math.floor(draw(key) * (most - least + 1))
  const isCalm = alone.faults.phases.length === 0
  const many = <T>(
    key: string,
    count: number,
    make: (name: string) => T,
    until = 55 * second,
  ): (T & Timed)[] =>
    Array.from({ length: count }, (_, index) => ({
      at: between(`${key} ${index} at`, 2 * second, until),
      ...make(`${key} ${index}`),
    }))
  const times = <T>(key: string, share: number, most: number, make: (name: string) => T): (T & Timed)[] =>
    isCalm || draw(`${key} at all`) >= share ? [] : many(key, between(key, 1, most), make)

  const { changedLimits: _, subjectsMax: _subjects, faults, ...rest } = alone
  const restart = (name: string) => ({ downMs: between(`${name} down`, 50, 5_000) })
  const failOver = (name: string) => ({
    lostMs: between(`${name} lost`, 1, 2_000),
    deposedMs: between(`${name} deposed`, 1, 8_000),
  })
  const crash = (name: string) => ({ downMs: between(`${name} down`, 100, 4_000) })
  const longPause = (name: string) => ({ forMs: between(`${name} for`, 5, 25) * second })
  const settings: Settings = {
    ...rest,
    faults: {
      ...faults,
      // The time of a fleet is that of machines whose clocks are kept.
      steps: [],
      // Some pauses last until the others have declared the process dead.
      pauses: [...faults.pauses, ...times('pause', 0.4, 2, longPause)],
    },
  }
  const mixed: FleetSettings = {
    settings,
    gateways,
    focus,
    ambushes: [],
    engines: {
      flushes: times('flush', 0.5, 4, () => ({})),
      restarts: times('restart', 0.25, 2, restart),
      failOvers: times('fail over', 0.35, 2, failOver),
      crashes: times('crash', 0.35, 2, crash),
    },
  }
  if (focus === 'none' && settings.faults.holds.length === 0) return mixed
  if (focus === 'none')
    return {
      ...mixed,
      ambushes: many('held ambush', 8, (name) => ({
        forMs: between(`${name} for`, 20, 240),
        order: 'hold' as const,
        isBeforeAnswer: draw(`${name} before`) < 0.5,
      })),
    }

  /** Two recipients get nearly everything, so that their windows are always full. */
  const hot = [recipients[0], recipients[0], recipients[1]]
  const concentrated: Settings = {
    ...settings,
    operations: between('operations', 120, 200),
    traffic: {
      tenants: ['t1', 't1', 't1', 't2'],
      recipients: hot,
      shares: { batch: 0.05, cancel: 0.03, preferences: 0.02 },
      recent: 6,
      isTwice: false,
    },
    faults: {
      ...settings.faults,
      phases: [{ from: second, to: between('phase', 40, 55) * second }],
      isEndless: false,
      stops: [],
      holds: [],
      kills: [],
      pauses: [],
    },
  }
  const kills = (count: number, until = 55 * second, from = 0): Settings['faults']['kills'] =>
    many(
      `killed ${from}`,
      count,
      (name) => ({
        after: between(`${name} after`, 0, 3),
        moment: draw(`${name} moment`) < 0.5 ? ('performed' as const) : ('answered' as const),
        isAtSend: true,
      }),
      until,
    )
      .map((kill) => ({ ...kill, at: Math.max(kill.at, from) }))
      .sort((a, b) => a.at - b.at)
  /** Calls that are under way for long: late on the socket, or without an answer. */
  const slowProvider = { ...settings.provider, lateWriteShare: 0.3, hangShare: 0.1, lostShare: 0.1 }
  const narrow = settings.limits.map((limit) => ({
    ...limit,
    max: Math.min(limit.max, 2),
    windowMs: Math.min(limit.windowMs, 5 * second),
  }))

  switch (focus) {
    case 'losses':
      return {
        ...mixed,
        settings: { ...concentrated, limits: narrow, provider: slowProvider },
        engines: {
          flushes: many('flushed', 12, () => ({})),
          restarts: many('restarted', 2, restart),
          failOvers: many('failed over', 5, failOver),
          crashes: many('crashed', 2, crash),
        },
      }
    case 'deaths':
      // All is over after 40 s, but for one more kill: whoever is left takes over in time.
      return {
        ...mixed,
        settings: {
          ...concentrated,
          limits: narrow,
          waitingMax: between('waiting', 20, 40),
          provider: { ...slowProvider, idempotent: false },
          faults: {
            ...concentrated.faults,
            phases: [{ from: second, to: 35 * second }],
            kills: [...kills(4, 30 * second), ...kills(1, 52 * second, 45 * second)],
            pauses: many(
              'paused',
              2,
              (name) => ({ forMs: between(`${name} for`, 13, 20) * second }),
              20 * second,
            ),
          },
        },
        engines: {
          restarts: [],
          failOvers: [],
          flushes: many('flushed', 4, () => ({}), 35 * second),
          crashes: many('crashed', 3, crash, 35 * second),
        },
      }
    case 'rights':
      return {
        ...mixed,
        settings: {
          ...concentrated,
          traffic: {
            tenants: ['t1', 't2'],
            recipients: recipients.slice(0, 4),
            shares: { batch: 0.05, cancel: 0.2, preferences: 0.2 },
            recent: 6,
            isTwice: draw('twice') < 0.5,
          },
        },
        ambushes: many('ambush', 12, (name) => ({
          forMs:
            draw(`${name} long`) < 0.6
              ? between(`${name} short for`, 20, 240)
              : between(`${name} for`, 250, 4_000),
          order: draw(`${name} order`) < 0.3 ? ('cancel' as const) : ('opt-out' as const),
          isBeforeAnswer: draw(`${name} before`) < 0.5,
        })),
      }
    case 'accounts':
      return {
        ...mixed,
        settings: {
          ...concentrated,
          limits: settings.limits.map((limit) => ({ ...limit, max: 4, windowMs: second })),
          rates: [],
          accounts: settings.accounts.map((account, index) => {
            const windowMs = between(`window ${index}`, 1, 10) * 100
            const max = between(`places ${index}`, 1, 4)
            return { ...account, windows: [{ max, windowMs }, ...account.windows.slice(1)] }
          }),
          provider: {
            ...slowProvider,
            lateWriteShare: 0.1,
            outages: settings.accounts.flatMap(({ id }, index) => {
              const from = between(`outage ${index}`, 5, 30) * second
              const to = from + between(`outage ${index} for`, 5, 15) * second
              const fate = draw(`outage ${index} fate`) < 0.6 ? ('fail' as const) : ('limit' as const)
              return index % 2 === 0 ? [id, `sms-${id}`].map((account) => ({ account, from, to, fate })) : []
            }),
          },
          faults: {
            ...concentrated.faults,
            kills: kills(1),
            pauses: many('paused', 3, (name) => ({ forMs: between(`${name} for`, 20, 1_500) })),
          },
        },
        engines: {
          flushes: many('flushed', 4, () => ({})),
          restarts: [],
          failOvers: many('failed over', 4, failOver),
          crashes: [],
        },
      }
  }
}

/** Spans in which an engine is away or has been a moment ago. */
export function engineSpans({ engines, strikes = [], settings }: FleetSettings): readonly Span[] {
  const span = (at: number, forMs: number): Span => ({ from: at, to: at + forMs + second })
  return [
    // Nobody knows beforehand when they strike.
    ...(strikes.length === 0 ? [] : [span(0, settings.trafficMs)]),
    ...engines.flushes.map(({ at }) => span(at, 0)),
    ...engines.restarts.map(({ at, downMs }) => span(at, downMs)),
    ...engines.failOvers.map(({ at, lostMs, deposedMs }) => span(at, lostMs + deposedMs)),
    ...engines.crashes.map(({ at, downMs }) => span(at, downMs)),
  ]
}
