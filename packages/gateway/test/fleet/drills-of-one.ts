/** Drills of one gateway: traffic and faults that are made for one kind of mistake. No seed has a drill by itself. */
import { quietSettings } from './quiet-settings.ts'
import type { HoldPlan, Settings } from './settings.ts'
import { recipients, second, settingsOf } from './settings.ts'
import { drawOf } from './world.ts'

export const drillsOfOne = ['restarts', 'slow-limits'] as const
export type DrillOfOne = (typeof drillsOfOne)[number]

const trafficMs = 40 * second

export function drilledAlone(drill: DrillOfOne, seed: number): Settings {
  const draw = (key: string): number => drawOf(seed, `drill ${key}`)
  const between = (key: string, least: number, most: number): number =>
    least + Math.floor(draw(key) * (most - least + 1))
  const { changedLimits: _, subjectsMax: _subjects, ...before } = settingsOf(seed)
  const everything = { name: 'everything', per: ['recipient'], max: 1, over: 'delay' } as const
  const settings: Settings = {
    ...before,
    ...quietSettings(trafficMs),
    operations: between('operations', 120, 180),
    limits: [{ ...everything, windowMs: 2 * second }],
    accounts: [{ id: 'account-0', windows: [{ max: 50, windowMs: second }] }],
  }
  const holds = (count: number, plan: Pick<HoldPlan, 'forMs' | 'isBeforeCall'>): readonly HoldPlan[] =>
    Array.from({ length: count }, (_each, index) => ({
      at: Math.floor(((index + draw(`hold ${index}`)) * trafficMs) / count),
      selection: { tenant: index % 2 === 0 ? 't1' : 't2' },
      ...plan,
    }))
  /** Few recipients, so that their limits are met. */
  const hot = {
    tenants: ['t1', 't2'],
    recipients: recipients.slice(0, 2),
    shares: {},
    recent: 6,
    isTwice: false,
  }

  if (drill === 'slow-limits')
    return {
      ...settings,
      traffic: hot,
      provider: { ...settings.provider, limitShare: 0.1, lateWriteShare: 0.5 },
      faults: {
        ...settings.faults,
        stateDelayShare: 0.5,
        stateRefusedShare: 0.1,
        holds: holds(12, { forMs: 1_500, isBeforeCall: true }),
      },
    }
  const isOfAccount = draw('account') < 0.5
  return {
    ...settings,
    downMsMax: 300,
    limits: [{ ...everything, windowMs: 5 * second }],
    // Another version of the policy, which counts alike.
    changedLimits: [{ ...everything, windowMs: 5 * second + 1 }],
    ...(isOfAccount
      ? {
          accounts: [
            {
              id: 'account-0',
              windows: [
                { max: 2, windowMs: 1_900 },
                { max: 8, windowMs: 10 * second },
              ],
            },
          ],
        }
      : {}),
    traffic: isOfAccount ? { ...hot, recipients } : hot,
    faults: {
      ...settings.faults,
      kills: Array.from({ length: 9 }, (_each, index) => ({
        at: (3 + 4 * index) * second + between(`kill ${index}`, 0, 3_000),
        after: between(`after ${index}`, 0, 1),
        moment: 'performed' as const,
        isAtSend: true,
      })),
      holds: holds(6, { forMs: 6 * second }),
    },
  }
}
