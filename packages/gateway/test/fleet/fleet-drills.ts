/**
 * Drills: traffic and faults that are made for one kind of mistake, where seeds of all kinds rarely meet it. No seed has a
 * drill by itself; a sabotage names the one in which its seeds are run.
 */
import type { FleetSettings } from './fleet-settings.ts'
import { quietSettings } from './quiet-settings.ts'
import { newLimits, rollouts } from './rollout-drills.ts'
import { recipients, type Settings, second } from './settings.ts'
import type { Strike } from './strike.ts'
import { drawOf } from './world.ts'

/** The drills of several gateways. */
export const drills = [
  'refills',
  'generations',
  'takeovers',
  'answers',
  'orders',
  'preferences',
  'digests',
  'late-writes',
  'breakers',
  'rollouts',
  'new-limits',
] as const
export type Drill = (typeof drills)[number]

export function drilled(drill: Drill, seed: number, mixed: FleetSettings): FleetSettings {
  const draw = (key: string): number => drawOf(seed, `drill ${key}`)
  const between = (key: string, least: number, most: number): number =>
    least + Math.floor(draw(key) * (most - least + 1))
  const pick = <T>(key: string, values: readonly T[]): T => values[between(key, 0, values.length - 1)]!
  const { changedLimits: _, ...before } = mixed.settings
  const trafficMs = 30 * second
  /** One limit of one call, accounts that hold nobody up, and engines that answer soon. */
  const settings: Settings = {
    ...before,
    ...quietSettings(trafficMs),
    operations: between('operations', 40, 70),
    limits: [{ name: 'everything', per: ['recipient'], max: 1, windowMs: 2 * second, over: 'delay' }],
    // The token of an account ends with its slot, so that an answer of the limits that comes late is used without one only.
    accounts: [{ id: 'account-0', windows: draw('rate') < 0.3 ? [{ max: 50, windowMs: second }] : [] }],
    traffic: {
      tenants: ['t1', 't2'],
      recipients,
      shares: { batch: 0 },
      recent: 6,
      isTwice: false,
    },
  }
  const quiet: FleetSettings = {
    ...mixed,
    settings,
    focus: 'none',
    ambushes: [],
    engines: { flushes: [], restarts: [], failOvers: [], crashes: [] },
  }
  /** So many that the windows of each are empty mostly. */
  const many = Array.from({ length: 40 }, (_, index) => `recipient-${index}`)
  /** Spreads strikes over the traffic, in their order. */
  const strikes = (
    count: number,
    make: (name: string) => Omit<Strike, 'at'>,
    until = trafficMs,
  ): readonly Strike[] =>
    Array.from({ length: count }, (_, index) => ({
      at: 2 * second + Math.floor(((index + draw(`strike ${index} at`)) * (until - 5 * second)) / count),
      ...make(`strike ${index}`),
    }))

  switch (drill) {
    case 'generations': {
      const kinds = ['accept', 'accept', 'room', 'room', 'fail over', 'fail over', 'claims'] as const
      return {
        ...quiet,
        settings: {
          ...settings,
          operations: between('few', 5, 15),
          rates: [{ of: 'tenant', tenant: 't1', max: 2, windowMs: 2 * second }],
          waitingMax: 6,
          accounts: [{ id: 'account-0', windows: [{ max: 4, windowMs: second }] }],
          isRoomExact: true,
        },
        strikes: strikes(8, (name) => {
          const forMs = between(`${name} for`, 25, 80)
          const flushMs = between(`${name} flush`, 6, 10)
          const first = { afterMs: 1, to: 'same', count: 4 } as const
          const second = { afterMs: flushMs + between(`${name} then`, 1, 4), to: 'other', count: 6 } as const
          switch (pick(`${name} kind`, kinds)) {
            // The commit of an acceptance travels while the state under which it was decided is lost and filled again.
            case 'accept':
              return {
                awaits: 'time',
                locks: [{ call: 'store.commit', of: 'same', forMs }],
                flushesAfterMs: [flushMs],
                posts: [
                  { ...first, tenant: 't1' },
                  { ...second, tenant: 't1' },
                ],
              }
            case 'room':
              return {
                awaits: 'time',
                locks: [{ call: 'store.commit', of: 'same', forMs }],
                flushesAfterMs: [flushMs],
                posts: [
                  { ...first, tenant: 't2', waitsMs: 1_500 },
                  { ...second, tenant: 't2', waitsMs: 1_500 },
                ],
              }
            // The last counts are lost, and the earlier ones are kept.
            case 'fail over':
              return {
                awaits: 'time',
                failOverAfterMs: forMs,
                posts: [
                  { ...first, tenant: pick(`${name} tenant`, ['t1', 't2']) },
                  {
                    ...second,
                    afterMs: forMs + between(`${name} later`, 255, 600),
                    tenant: pick(`${name} tenant`, ['t1', 't2']),
                  },
                ],
              }
            // Two claim the same value, and the one whose claim was lost takes the later generation.
            case 'claims':
              return {
                awaits: 'time',
                locks: ['nextThrottleGeneration', 'nextRoomGeneration'].map((method) => ({
                  call: `records.${method}`,
                  of: 'same',
                  forMs,
                })),
                flushesAfterMs: [0, 4],
                posts: [
                  { ...first, tenant: 't1' },
                  { ...second, afterMs: 5, tenant: 't1' },
                ],
              }
          }
        }),
      }
    }
    case 'takeovers':
      // A takeover comes twelve seconds behind a death: only a longer window still has the call of the dead one in it.
      return {
        ...quiet,
        wakesAtDeath: true,
        settings: {
          ...settings,
          trafficMs: 60 * second,
          limits: [{ ...settings.limits[0]!, windowMs: 20 * second }],
          traffic: { ...settings.traffic!, recipients: many },
          provider: { ...settings.provider, lateWriteShare: 0.2, hangShare: 0.2 },
          faults: {
            ...settings.faults,
            phases: [{ from: second, to: 50 * second }],
            lostShare: draw('lost') < 0.5 ? 0.04 : 0,
            kills: [6, 18, 32].map((at, index) => ({
              at: at * second,
              after: between(`after ${index}`, 0, 2),
              moment: 'performed' as const,
              isAtSend: true,
            })),
            pauses: [{ at: between('paused', 40, 45) * second, forMs: 25 * second }],
          },
        },
        strikes: strikes(
          12,
          () => ({
            awaits: 'time',
            posts: [{ afterMs: 0, to: 'other', tenant: 't2', count: 2, waitsMs: 2_500 }],
          }),
          55 * second,
        ),
      }
    case 'late-writes':
      // Windows end before the calls of a dead gateway are taken over, and somebody always waits for their end.
      return {
        ...quiet,
        settings: {
          ...settings,
          trafficMs: 60 * second,
          operations: between('operations', 100, 140),
          traffic: { ...settings.traffic!, recipients: recipients.slice(0, 4), tenants: ['t1'] },
          provider: { ...settings.provider, lateWriteShare: 0.7, lateWriteMsMax: 240 },
          faults: {
            ...settings.faults,
            phases: [{ from: second, to: 55 * second }],
            kills: Array.from({ length: 9 }, (_, index) => ({
              at: (3 + 6 * index) * second,
              after: between(`after ${index}`, 0, 3),
              moment: 'performed' as const,
              isAtSend: true,
            })),
          },
        },
      }
    case 'breakers':
      // An account fails from the moment on in which a gateway is killed, which may be the one that judges it.
      return {
        ...quiet,
        settings: {
          ...settings,
          trafficMs: 60 * second,
          operations: between('operations', 250, 350),
          limits: [],
          breakerInARow: 3,
          accounts: [0, 1].map((index) => ({ id: `account-${index}`, windows: [] })),
          traffic: { ...settings.traffic!, recipients: many },
          provider: {
            ...settings.provider,
            outages: [6, 26, 46].map((from) => ({
              account: 'account-0',
              fate: 'fail' as const,
              from: from * second,
              to: (from + 8) * second,
            })),
          },
          faults: {
            ...settings.faults,
            phases: [{ from: second, to: 55 * second }],
            kills: [5, 25, 45].map((at, index) => ({
              at: at * second,
              after: between(`after ${index}`, 0, 2),
              moment: 'performed' as const,
              isAtSend: true,
            })),
          },
        },
      }
    case 'answers':
      return {
        ...quiet,
        settings: { ...settings, faults: { ...settings.faults, lostShare: 0.05 } },
        strikes: strikes(14, (name) => ({
          awaits: 'time',
          posts: [
            {
              afterMs: 0,
              to: 'same',
              tenant: 't2',
              count: 3,
              waitsMs: between(`${name} waits`, 2_500, 6_000),
            },
          ],
        })),
      }
    case 'orders':
      return {
        ...quiet,
        settings: {
          ...settings,
          operations: between('operations', 60, 90),
          traffic: { ...settings.traffic!, recipients: many },
          provider: { ...settings.provider, lateWriteShare: 0.4 },
        },
        ambushes: Array.from({ length: 16 }, (_, index) => ({
          at: 2 * second + index * 1_600,
          forMs: between(`ambush ${index}`, 1, 60),
          order: index % 4 === 3 ? ('hold' as const) : ('opt-out' as const),
          isBeforeAnswer: false,
        })),
      }
    case 'preferences':
      return {
        ...quiet,
        settings: {
          ...settings,
          operations: between('operations', 120, 160),
          traffic: {
            ...settings.traffic!,
            recipients: recipients.slice(0, 3),
            shares: { preferences: 0.4 },
            isTwice: true,
            isFlip: true,
          },
        },
      }
    case 'digests':
      // Two people whose limits hold up most of what they get, half of it items of digests.
      return {
        ...quiet,
        settings: {
          ...settings,
          trafficMs: 60 * second,
          operations: between('operations', 70, 110),
          limits: [
            {
              ...settings.limits[0]!,
              max: between('max', 1, 2),
              windowMs: between('window', 3, 8) * second,
            },
            ...(draw('authors') < 0.4
              ? [
                  {
                    name: 'author',
                    per: ['recipient', 'actor'] as const,
                    max: 1,
                    windowMs: between('author', 4, 10) * second,
                    over: draw('over') < 0.5 ? ('delay' as const) : ('digest:news' as const),
                  },
                ]
              : []),
          ],
          digestMs: 3 * second,
          traffic: {
            ...settings.traffic!,
            recipients: recipients.slice(0, 2),
            tenants: ['t1'],
            category: 'activity',
            shares: { cancel: draw('cancels') < 0.5 ? 0.05 : 0.25 },
          },
          provider: { ...settings.provider, lateWriteShare: draw('late') < 0.5 ? 0.3 : 0 },
          faults: { ...settings.faults, phases: [] },
        },
      }
    case 'rollouts':
      return rollouts(mixed, { draw, between })
    case 'new-limits':
      return newLimits(quiet, { draw, between })
    case 'refills':
      return {
        ...quiet,
        settings: { ...settings, provider: { ...settings.provider, lateWriteShare: 0.3, hangShare: 0.2 } },
        strikes: strikes(12, (name) => {
          const afterMs = between(`${name} after`, 2, 12)
          const follower = { afterMs: afterMs + between(`${name} follows`, 1, 6), to: 'other' as const }
          switch (pick(`${name} kind`, ['flush', 'flush', 'fail over', 'depose', 'depose'] as const)) {
            case 'flush':
              return { awaits: 'written', flushesAfterMs: [afterMs], posts: [follower] }
            case 'fail over':
              return {
                awaits: 'begin',
                failOverAfterMs: afterMs,
                posts: [{ ...follower, afterMs: between(`${name} later`, 280, 1_600) }],
              }
            case 'depose':
              return {
                awaits: 'begin',
                failOverAfterMs: 0,
                deposedMs: between(`${name} deposed`, 2_200, 5_000),
                ...(draw(`${name} pauses`) < 0.6 ? { pauseMs: between(`${name} pause`, 100, 235) } : {}),
                posts: [
                  follower,
                  { afterMs: between(`${name} second`, 260, 420), to: 'other' },
                  { afterMs: between(`${name} third`, 500, 1_500), to: 'same' },
                ],
              }
          }
        }),
      }
  }
}
