/** The rule sets of the limiter's benchmark, and what a contestant is. A minimum distance is a window of one. */

export interface Rule {
  /** Rules of one stream count the same instants. */
  readonly stream: string
  readonly max: number
  readonly windowMs: number
}

export type SetName = 'R1' | 'R3' | 'R6'
export const setNames: readonly SetName[] = ['R1', 'R3', 'R6']

const minuteMs = 60_000
const dayMs = 86_400_000

/** Wide, so that nearly everything is admitted and every rule does all of its work; the windows are the real ones. */
export const ruleSets: Readonly<Record<SetName, readonly Rule[]>> = {
  R1: [{ stream: 'all', max: 100, windowMs: minuteMs }],
  R3: [
    { stream: 'marketing', max: 200, windowMs: dayMs },
    { stream: 'marketing', max: 500, windowMs: 7 * dayMs },
    { stream: 'marketing', max: 1_000, windowMs: 30 * dayMs },
  ],
  R6: [
    { stream: 'marketing', max: 200, windowMs: dayMs },
    { stream: 'marketing', max: 500, windowMs: 7 * dayMs },
    { stream: 'marketing', max: 1_000, windowMs: 30 * dayMs },
    { stream: 'category', max: 1_000, windowMs: 30 * minuteMs },
    { stream: 'global', max: 10_000, windowMs: 30 * minuteMs },
    { stream: 'gap', max: 1, windowMs: 3 },
  ],
}

export type Take = (subject: string) => boolean | Promise<boolean>

export interface Contestant {
  readonly name: string
  /** A short description, for the table. */
  readonly kind: string
  /** Only these sets; all of them where it is left out. */
  readonly sets?: readonly SetName[]
  /** Does next to nothing: a bound, not a limiter. */
  readonly floor?: boolean
  /** `redis` is an ioredis client of its own, with auto-pipelining; undefined for those in memory. */
  readonly open: (stage: {
    readonly redis: unknown
    readonly prefix: string
    readonly rules: readonly Rule[]
  }) => Take | Promise<Take>
}

/** Names in the order of the tables; the first is ours. */
export const overRedis = [
  'sluice',
  'rate-limiter-flexible',
  'upstash',
  'gcra-script',
  'zset-script',
  'zset-per-rule',
  'rolling-rate-limiter',
  'floor-get-set',
  'floor-empty',
] as const
export const inMemory = [
  'sluice-memory',
  'arrays',
  'limiter',
  'rate-limiter-flexible-memory',
  'rolling-rate-limiter-memory',
  'bottleneck',
] as const
