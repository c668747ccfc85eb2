/**
 * Series of what happens, in memory: a value per second for an hour and per minute for a day, and quantiles of the
 * last minute. They begin with the process. Memory: 8 series of 5,040 numbers of 8 bytes, 0.33 MB. Nothing ticks: a
 * series moves on when it is added to or read. In a fleet the processes add what the others tell (fleet-series.ts).
 */

export const seriesNames = [
  'accepted',
  'delivered',
  'suppressed',
  'rateLimited',
  'requests4xx',
  'requests5xx',
  'acceptP99Ms',
  'lateP99Ms',
] as const
export type SeriesName = (typeof seriesNames)[number]
type Counted = Exclude<SeriesName, 'acceptP99Ms' | 'lateP99Ms'>
/** Durations of which quantiles are kept. */
const observed = ['accept', 'late', 'commit'] as const
type Observed = (typeof observed)[number]
/** The series that a duration has; commits have none. */
const largestOf: Readonly<Partial<Record<Observed, SeriesName>>> = {
  accept: 'acceptP99Ms',
  late: 'lateP99Ms',
}

const secondsKept = 3_600
const minutesKept = 1_440
/** Buckets of a quantile, four for each doubling from 0.1 ms: a quantile is at most 19 % too high. */
const bucketsOf = 128
const quantileSeconds = 60

/** The part of the series that one process has counted and measured within some time. */
export interface SeriesShare {
  readonly counts: readonly (readonly [Counted, number])[]
  readonly durations: readonly {
    readonly of: Observed
    readonly buckets: readonly (readonly [bucket: number, count: number])[]
    /** ms */
    readonly largest: number
  }[]
}

export interface OverviewSeries {
  add(name: Counted, count?: number): void
  observe(name: Observed, ms: number): void
  /** The mean of a second, over the last minute or since the start where that is less. */
  perSecond(name: Counted): number
  /** A quantile of the last minute, ms; null where nothing was measured. */
  quantile(name: Observed, share: number): number | null
  /** The kept values, oldest first; the last one is the present second or minute. */
  read(step: 'second' | 'minute'): {
    readonly stepMs: number
    readonly from: number
    readonly values: Readonly<Record<SeriesName, readonly number[]>>
  }
  /** The share of this process since the last call; undefined where nothing was counted or measured. */
  takeShare(): SeriesShare | undefined
  /** Adds the share of another process, in the present second. */
  join(share: SeriesShare): void
}

export function createOverviewSeries(now: () => number): OverviewSeries {
  const begunAt = Math.floor(now() / 1_000)
  const rings = Object.fromEntries(
    seriesNames.map((name) => [
      name,
      { seconds: new Float64Array(secondsKept), minutes: new Float64Array(minutesKept) },
    ]),
  ) as Record<SeriesName, { readonly seconds: Float64Array; readonly minutes: Float64Array }>
  const buckets = {
    accept: new Uint32Array(quantileSeconds * bucketsOf),
    late: new Uint32Array(quantileSeconds * bucketsOf),
    commit: new Uint32Array(quantileSeconds * bucketsOf),
  }
  let second = begunAt
  const newShare = () => ({
    counts: new Map<Counted, number>(),
    durations: new Map<Observed, { readonly buckets: Map<number, number>; largest: number }>(),
  })
  let share = newShare()

  /** Moves on to the present second: the slots that come into use again are emptied. */
  function advance(): number {
    const present = Math.max(second, Math.floor(now() / 1_000))
    if (present === second) return second
    const first = Math.max(second + 1, present - secondsKept + 1)
    for (let at = first; at <= present; at += 1) {
      const slot = (at % quantileSeconds) * bucketsOf
      for (const name of observed) buckets[name].fill(0, slot, slot + bucketsOf)
      for (const name of seriesNames) rings[name].seconds[at % secondsKept] = 0
    }
    const minute = Math.floor(second / 60)
    const until = Math.floor(present / 60)
    for (let at = Math.max(minute + 1, until - minutesKept + 1); at <= until; at += 1)
      for (const name of seriesNames) rings[name].minutes[at % minutesKept] = 0
    second = present
    return second
  }

  function quantileOf(name: Observed, share: number, from: number): number | null {
    const counts = new Array<number>(bucketsOf).fill(0)
    let total = 0
    for (let at = from; at <= second; at += 1) {
      const slot = (((at % quantileSeconds) + quantileSeconds) % quantileSeconds) * bucketsOf
      for (let bucket = 0; bucket < bucketsOf; bucket += 1) {
        const count = buckets[name][slot + bucket]!
        counts[bucket]! += count
        total += count
      }
    }
    if (total === 0) return null
    let left = total * share
    for (let bucket = 0; bucket < bucketsOf; bucket += 1) {
      left -= counts[bucket]!
      if (left <= 0) return boundOf(bucket)
    }
    return boundOf(bucketsOf - 1)
  }

  function count(name: Counted, more: number): void {
    const at = advance()
    rings[name].seconds[at % secondsKept]! += more
    rings[name].minutes[Math.floor(at / 60) % minutesKept]! += more
  }

  function measure(name: Observed, bucket: number, times: number): void {
    buckets[name][(advance() % quantileSeconds) * bucketsOf + bucket]! += times
  }

  /** The series holds the largest value of a second: its p99 where fewer than a hundred are measured. */
  function raise(name: Observed, ms: number): void {
    const at = advance()
    const largest = largestOf[name]
    if (largest === undefined) return
    const ring = rings[largest]
    const slots = [
      [ring.seconds, at % secondsKept],
      [ring.minutes, Math.floor(at / 60) % minutesKept],
    ] as const
    for (const [values, slot] of slots) values[slot] = Math.max(values[slot]!, ms)
  }

  return {
    add(name, more = 1) {
      count(name, more)
      share.counts.set(name, (share.counts.get(name) ?? 0) + more)
    },
    observe(name, ms) {
      const bucket = bucketOf(ms)
      measure(name, bucket, 1)
      raise(name, ms)
      const own = share.durations.get(name) ?? { buckets: new Map(), largest: 0 }
      own.buckets.set(bucket, (own.buckets.get(bucket) ?? 0) + 1)
      own.largest = Math.max(own.largest, ms)
      share.durations.set(name, own)
    },
    takeShare() {
      const { counts, durations } = share
      if (counts.size === 0 && durations.size === 0) return undefined
      share = newShare()
      return {
        counts: [...counts],
        durations: [...durations].map(([of, { buckets: own, largest }]) => ({
          of,
          buckets: [...own],
          largest,
        })),
      }
    },
    join({ counts, durations }) {
      for (const [name, more] of counts) count(name, more)
      for (const { of, buckets: theirs, largest } of durations) {
        for (const [bucket, times] of theirs) measure(of, bucket, times)
        raise(of, largest)
      }
    },
    perSecond(name) {
      const at = advance()
      const seconds = Math.min(60, at - begunAt + 1)
      let sum = 0
      for (let back = 0; back < seconds; back += 1) sum += rings[name].seconds[(at - back) % secondsKept]!
      return Math.round((sum / seconds) * 1_000) / 1_000
    },
    quantile(name, share) {
      const at = advance()
      return quantileOf(name, share, Math.max(begunAt, at - quantileSeconds + 1))
    },
    read(step) {
      const at = advance()
      const stepSeconds = step === 'second' ? 1 : 60
      const kept = step === 'second' ? secondsKept : minutesKept
      const last = Math.floor(at / stepSeconds)
      const first = Math.max(Math.floor(begunAt / stepSeconds), last - kept + 1)
      const places = Array.from({ length: last - first + 1 }, (_, index) => (first + index) % kept)
      const values = Object.fromEntries(
        seriesNames.map((name) => {
          const ring = step === 'second' ? rings[name].seconds : rings[name].minutes
          return [name, places.map((place) => ring[place]!)]
        }),
      ) as unknown as Record<SeriesName, readonly number[]>
      return { stepMs: stepSeconds * 1_000, from: first * stepSeconds * 1_000, values }
    },
  }
}

const bucketOf = (ms: number): number =>
  Math.max(0, Math.min(bucketsOf - 1, Math.ceil(4 * Math.log2(Math.max(ms, 0.1) / 0.1))))

const boundOf = (bucket: number): number => Math.round(0.1 * 2 ** (bucket / 4) * 100) / 100
