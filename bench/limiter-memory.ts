/**
 * The limiter in memory, per core, beside exact arrays as one writes them in ten minutes and the token buckets of the
 * `limiter` package (not exact, and no decision to read). R1: 100 a minute. R6: day, week and month of one stream,
 * a category, everything, and a minimum distance, wide enough that nearly all is admitted; 10,000 people at 5 to 10
 * events. Every contestant runs in a process of its own each round.
 *
 *     npm run bench -- limiter-memory [--rounds 5] [--seconds 1]
 */
import { setImmediate as turn } from 'node:timers/promises'
import { createLimits, limit, memoryStore } from '@sluice/limits'
import { options } from './catalogue.ts'
import { save } from './figures.ts'
import { answer, start } from './process.ts'

type Set = 'R1' | 'R6'
type Take = (recipient: string) => boolean

interface Rule {
  readonly scope: string
  readonly max: number
  readonly windowMs: number
}

const dayMs = 86_400_000
const minuteMs = 60_000
const rules: Readonly<Record<Set, readonly Rule[]>> = {
  R1: [{ scope: 'all', max: 100, windowMs: minuteMs }],
  R6: [
    { scope: 'marketing', max: 200, windowMs: dayMs },
    { scope: 'marketing', max: 500, windowMs: 7 * dayMs },
    { scope: 'marketing', max: 1_000, windowMs: 30 * dayMs },
    { scope: 'category', max: 1_000, windowMs: 30 * minuteMs },
    { scope: 'global', max: 10_000, windowMs: 30 * minuteMs },
    { scope: 'global', max: 1, windowMs: 1 },
  ],
}

function ours(set: Set): Take {
  const { sync } = createLimits({ store: memoryStore() })
  const limits =
    set === 'R1'
      ? [limit('minute', '100/min')]
      : [
          limit('marketing', '200/day, 500/week, 1000/month', { stream: 'marketing' }),
          limit('category', '1000/30min', { stream: 'category' }),
          limit('global', '10000/30min', { stream: 'global', minGap: '1ms' }),
        ]
  return (recipient) => sync.take(recipient, limits).allowed
}

function arrays(set: Set): Take {
  const of = rules[set]
  const logs = of.map(() => new Map<string, number[]>())
  return (recipient) => {
    const now = Date.now()
    const kept = of.map(({ windowMs }, i) =>
      (logs[i]!.get(recipient) ?? []).filter((at) => at > now - windowMs),
    )
    if (kept.some((log, i) => log.length >= of[i]!.max)) return false
    for (const [i, log] of kept.entries()) {
      log.push(now)
      logs[i]!.set(recipient, log)
    }
    return true
  }
}

interface Bucket {
  content: number
  tryRemoveTokens(count: number): boolean
}

async function buckets(set: Set): Promise<Take> {
  const limiter = 'limiter'
  const { TokenBucket } = (await import(limiter)) as { TokenBucket: new (options: object) => Bucket }
  const chains = new Map<string, Bucket>()
  const chain = (): Bucket => {
    let bucket: Bucket | undefined
    for (const { max, windowMs } of rules[set]) {
      const parent: object = bucket === undefined ? {} : { parentBucket: bucket }
      bucket = new TokenBucket({ bucketSize: max, tokensPerInterval: max, interval: windowMs, ...parent })
      bucket.content = max
    }
    return bucket!
  }
  return (recipient) => {
    let bucket = chains.get(recipient)
    if (bucket === undefined) {
      bucket = chain()
      chains.set(recipient, bucket)
    }
    return bucket.tryRemoveTokens(1)
  }
}

const contestants = { ours, arrays, buckets } as const
type Name = keyof typeof contestants
const keys = 10_000
const laps = 5

/** Every person once a lap, so that two calls for one are a lap apart and the minimum distance is kept. */
async function measure({ name, set, seconds }: { name: Name; set: Set; seconds: number }): Promise<number> {
  const recipients = Array.from({ length: keys }, (_, i) => `user:${(i * 7_919) % keys}`)
  const lap = (take: Take): number => {
    let admitted = 0
    for (let n = 0; n < laps; n += 1) for (const recipient of recipients) if (take(recipient)) admitted += 1
    return admitted
  }
  let [spentMs, calls, admitted] = [0, 0, 0]
  for (let warm = true; spentMs < seconds * 1_000; ) {
    // Within one turn of the event loop nothing that a WeakRef was made of goes: all stores would stay until the end.
    await turn()
    const take = await contestants[name](set)
    lap(take)
    const begun = performance.now()
    const passed = lap(take)
    const tookMs = performance.now() - begun
    if (!warm) {
      spentMs += tookMs
      calls += laps * keys
      admitted += passed
    }
    warm = false
  }
  if (admitted < calls * 0.9) throw new Error(`${name}, ${set}: only ${admitted} of ${calls} were admitted`)
  return (calls / spentMs) * 1_000
}

async function compare(): Promise<void> {
  const { rounds, seconds } = options('limiter-memory')
  const found = new Map<string, number[]>()
  for (let round = 0; round < rounds; round += 1) {
    for (const set of ['R1', 'R6'] as const) {
      for (const name of Object.keys(contestants)) {
        const peer = start('limiter-memory.ts', '--serve')
        const figure = await peer.ask<number>('measure', { name, set, seconds })
        await peer.stop()
        found.set(`${name} ${set}`, [...(found.get(`${name} ${set}`) ?? []), figure])
      }
    }
  }
  const of = (name: Name, set: Set): number[] => found.get(`${name} ${set}`)!
  const row = (what: string, set: Set, name: Name, against: string) => ({
    what: `limiter in memory, ${what}`,
    unit: 'decisions/s',
    ours: of('ours', set),
    against: { name: against, figures: of(name, set) },
  })
  const naive = 'naive exact arrays'
  const chained = '`limiter` token buckets (not exact)'
  save({
    name: 'limiter-memory',
    title: 'The library in memory, one core, through its synchronous door.',
    rounds,
    comparisons: [
      { ...row('one window (R1)', 'R1', 'arrays', naive), goal: { min: 2 } },
      { ...row('six rules (R6)', 'R6', 'buckets', chained), goal: { min: 2 } },
      row('six rules (R6)', 'R6', 'arrays', naive),
      row('one window (R1)', 'R1', 'buckets', chained),
    ],
    notes: [
      'Ours is exact in every rolling window and answers with a decision that explains itself; a token bucket lets up to twice the limit through in one window.',
    ],
  })
}

if (process.argv.includes('--serve')) answer({ measure })
else await compare()
