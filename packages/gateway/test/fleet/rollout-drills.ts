/** Drills of rolling deployments: gateways of one fleet with different configurations, which are replaced while others run. */
import type { FleetSettings } from './fleet-settings.ts'
import { second } from './settings.ts'

/** Draws of a seed, by their names. */
interface Draws {
  draw(key: string): number
  between(key: string, least: number, most: number): number
}

/** Half of the processes have other numbers and accounts, or no digest, and each is replaced again and again while the others run. */
export function rollouts(mixed: FleetSettings, { draw, between }: Draws): FleetSettings {
  const { limits, rates, accounts, faults } = mixed.settings
  const isCalm = draw('calm') < 0.3
  const withoutDigest = (['before', 'changed'] as const)[between('digest', 0, 3)]
  const kept = accounts.length > 1 && draw('account') < 0.3 ? accounts.slice(0, -1) : accounts
  const added = draw('new account') < 0.3 ? [{ id: 'account-new' }] : []
  return {
    ...mixed,
    settings: {
      ...mixed.settings,
      changedLimits: limits.map((limit) => ({
        ...limit,
        max: between(`max of ${limit.name}`, 1, 4),
        windowMs: between(`window of ${limit.name}`, 2, 15) * second,
      })),
      changedRates: rates.map((rate) => ({
        ...rate,
        max: between(`max of a ${rate.of}`, 3, 12),
        windowMs: between(`window of a ${rate.of}`, 3, 15) * second,
      })),
      changedAccounts: [...kept, ...added].map(({ id }) => ({
        id,
        windows: [
          { max: between(`max of ${id}`, 2, 10), windowMs: between(`window of ${id}`, 2, 15) * 100 },
          ...(draw(`long of ${id}`) < 0.5
            ? [
                {
                  max: between(`long max of ${id}`, 20, 60),
                  windowMs: between(`long of ${id}`, 4, 12) * second,
                },
              ]
            : []),
        ],
      })),
      ...(withoutDigest === undefined ? {} : { withoutDigest }),
      faults: {
        ...faults,
        phases: isCalm ? [] : faults.phases,
        kills: isCalm ? [] : faults.kills,
        stops: Array.from({ length: 8 }, (_, index) => between(`stop ${index}`, 3, 55) * second),
      },
    },
    ...(isCalm ? { engines: { flushes: [], restarts: [], failOvers: [], crashes: [] } } : {}),
  }
}

/** The gateways are replaced one after the other by some with a limit of authors, whom those before never asked about. */
export function newLimits(quiet: FleetSettings, { between }: Draws): FleetSettings {
  return {
    ...quiet,
    settings: {
      ...quiet.settings,
      trafficMs: 60 * second,
      operations: between('many', 100, 160),
      traffic: { ...quiet.settings.traffic!, tenants: ['t1'], category: 'activity' },
      limits: [],
      changedLimits: [
        {
          name: 'author',
          category: 'activity',
          per: ['actor'],
          max: between('new max', 3, 10),
          windowMs: between('new window', 20, 40) * second,
          over: 'drop',
        },
      ],
      changedFrom: quiet.gateways + 1,
      faults: {
        ...quiet.settings.faults,
        phases: [],
        stops: Array.from({ length: 8 }, (_, index) => between(`stop ${index}`, 3, 35) * second),
      },
    },
  }
}
