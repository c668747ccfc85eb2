/** Findings of the limiter's benchmark, and the comparisons that its goals are about. Pure. */
import type { Comparison } from '../figures.ts'
import type { Behaviour, Load } from './contestant.ts'
import type { SetName } from './rules.ts'

export interface Measured extends Load {
  /** CPU of the server, per call. NaN in memory. */
  readonly redisCpuMicros: number
}

export interface Found {
  /** Version of the server. */
  redis: string
  /** By contestant and set, one a round. */
  readonly loads: Record<string, Partial<Record<SetName, Measured[]>>>
  /** The memory of a subject in Redis, with 10 and with 100 events on record. */
  readonly bytes: Record<string, Partial<Record<SetName, { readonly at10: number; readonly at100: number }>>>
  readonly behaviour: Record<string, Behaviour>
}

type Figure = 'perSecond' | 'redisCpuMicros'

export function comparisons(found: Found): Comparison[] {
  const figures = (name: string, set: SetName, figure: Figure): number[] =>
    found.loads[name]![set]!.map((measured) => measured[figure])
  const speed = (what: string, set: SetName, ours: string, [rival, name]: [string, string], min: number) => ({
    what: `limiter ${what} (${set})`,
    unit: 'decisions/s',
    ours: figures(ours, set, 'perSecond'),
    against: { name, figures: figures(rival, set, 'perSecond') },
    goal: { min },
  })
  const redis = (set: SetName, rival: [string, string], min: number): Comparison =>
    speed('over Redis', set, 'sluice', rival, min)
  const at10 = (name: string): number[] => [found.bytes[name]!.R6!.at10]
  return [
    redis('R6', ['rate-limiter-flexible', "rate-limiter-flexible's union (not exact)"], 4),
    redis('R6', ['zset-script', 'one script over sorted sets (exact)'], 2.5),
    redis('R6', ['gcra-script', 'GCRA in one script (not exact)'], 2),
    redis('R1', ['rate-limiter-flexible', 'rate-limiter-flexible, one rule (not exact)'], 1),
    {
      what: 'Redis CPU of a decision (R6)',
      unit: 'µs',
      ours: figures('sluice', 'R6', 'redisCpuMicros'),
      against: {
        name: 'a script that does GET and SET of 300 bytes',
        figures: figures('floor-get-set', 'R1', 'redisCpuMicros'),
      },
      goal: { max: 3 },
    },
    {
      what: 'bytes of a subject in Redis at 10 events (R6)',
      unit: 'B',
      ours: at10('sluice'),
      against: { name: 'a sorted set a rule', figures: at10('zset-script') },
      goal: { max: 1 / 3 },
    },
    { what: 'the same, absolute', unit: 'B', ours: at10('sluice'), goal: { max: 400 } },
  ]
}

interface Run {
  readonly seconds: number
  readonly keys: number
  readonly events: number
  readonly quick: boolean
}

export function notes({ redis }: Found, { seconds, keys, events, quick }: Run): string[] {
  const subjects = keys.toLocaleString('en-US')
  return [
    ...(quick ? ['**A quick run, to see that it works: these figures are no record.**'] : []),
    `Redis ${redis} without persistence; 64 calls in flight from one process over one ioredis connection with auto-pipelining; ${subjects} subjects with ${events} events each at the start; ${seconds} s a contestant and round.`,
    'R1: 100/min. R3: day, week, month on one stream. R6: R3, a category, everything, and a minimum distance, on four streams. Wide, so that nearly all is admitted.',
    'In memory, rate-limiter-flexible and rolling-rate-limiter are given 24 days in place of 30: a longer window overflows the timer that they set, and is none.',
    'In memory, those that answer with promises have 64 calls under way; bottleneck, which sets a timer a call, has 200 subjects.',
    'Redis CPU is user and system time of the server during the load, by decision.',
  ]
}
