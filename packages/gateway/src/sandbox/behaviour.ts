/**
 * The behaviour of a fake provider as data: its latency, its rates, its mishaps. Pure: time, chance and counts come
 * in as arguments, so the same seed gives the same run.
 */
/** A rate: at most `max` calls in any rolling `windowMs`. */
export interface SandboxRate {
  readonly max: number
  readonly windowMs: number
}

/**
 * A fate of a call besides its delivery. With `…_after_accept` the message reaches its recipient although the caller
 * never gets the answer, the case that no caller can tell from a loss.
 */
const mishaps = [
  'fail',
  'reject',
  'reject_address',
  'suspend',
  'reset',
  'reset_after_accept',
  'hang',
  'hang_after_accept',
] as const
export type Mishap = (typeof mishaps)[number]
export const fates = ['deliver', 'rate_limit', ...mishaps] as const
export type Fate = (typeof fates)[number]

export interface SandboxBehaviour {
  /**
   * Latency of an answer: ms, or a log-normal spread by its median and 99th percentile.
   * @defaultValue 0: answered at once, without a timer
   */
  readonly latency?: number | { readonly p50Ms: number; readonly p99Ms: number }
  /** Hard limits of an account; above them a call is answered 429. @defaultValue none */
  readonly rates?: readonly SandboxRate[]
  /** `Retry-After` to the letter; '' leaves it out. @defaultValue the whole seconds until a place frees */
  readonly retryAfter?: string
  /** Probability of each mishap, in [0, 1]; together at most 1. @defaultValue none */
  readonly odds?: Readonly<Partial<Record<Mishap, number>>>
  /** Answers slower by `factor` while more than `above` calls arrive, without a refusal: APNs throttles like this. */
  readonly slowDown?: { readonly above: SandboxRate; readonly factor: number }
}

/** A behaviour for a period: its fields replace the account's own. Times are ms since the sandbox was made. */
export interface SandboxPhase {
  readonly fromMs: number
  /** End of the period, exclusive. */
  readonly toMs: number
  /** Accounts of the phase. @defaultValue every account */
  readonly accounts?: readonly string[]
  readonly behaviour: SandboxBehaviour
}

/** Draws a mishap; `chance` is uniform in [0, 1). */
export function mishapOf(odds: SandboxBehaviour['odds'], chance: number): Mishap | undefined {
  if (odds === undefined) return undefined
  let passed = 0
  for (const mishap of mishaps) {
    passed += odds[mishap] ?? 0
    if (chance < passed) return mishap
  }
  return undefined
}

/** The standard normal's 99th percentile: the spread of the logarithm is ln(p99/p50) over it. */
const z99 = 2.326_347_874

/** Draws the latency of an answer, ms. The two chances are uniform in [0, 1) (Box–Muller). */
export function latencyOf(latency: SandboxBehaviour['latency'], chance: number, other: number): number {
  if (latency === undefined) return 0
  if (typeof latency === 'number') return latency
  const normal = Math.sqrt(-2 * Math.log(1 - chance)) * Math.cos(2 * Math.PI * other)
  return latency.p50Ms * Math.exp((Math.log(latency.p99Ms / latency.p50Ms) / z99) * normal)
}

/** Throws a TypeError that names the invalid field. */
export function checkBehaviour(behaviour: SandboxBehaviour, where: string): SandboxBehaviour {
  const { latency, rates = [], odds = {}, slowDown } = behaviour
  const refuse = (field: string, expected: string): never => {
    throw new TypeError(`${where}.${field} must be ${expected}`)
  }
  const isTime = (value: number): boolean => Number.isFinite(value) && value >= 0
  if (typeof latency === 'number' && !isTime(latency)) refuse('latency', 'ms, 0 or more')
  if (
    typeof latency === 'object' &&
    !(latency.p50Ms > 0 && isTime(latency.p99Ms) && latency.p99Ms >= latency.p50Ms)
  ) {
    refuse('latency', 'a median above 0 and a 99th percentile not below it, ms')
  }
  for (const rate of slowDown === undefined ? rates : [...rates, slowDown.above]) {
    if (!Number.isInteger(rate.max) || rate.max < 0) refuse('rates', 'whole numbers of calls, 0 or more')
    if (!(rate.windowMs > 0) || !Number.isFinite(rate.windowMs))
      refuse('rates', 'over windows longer than 0 ms')
  }
  const sum = Object.values(odds).reduce((total, each) => total + each, 0)
  if (!(sum <= 1 + 1e-9) || Object.values(odds).some((each) => !(each >= 0)))
    refuse('odds', 'in [0, 1], together at most 1')
  if (slowDown !== undefined && !(slowDown.factor >= 1)) refuse('slowDown.factor', '1 or more')
  return behaviour
}
