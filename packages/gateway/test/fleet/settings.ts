/**
 * Makes the settings of a run from its seed: the configuration of the gateway, the provider, the traffic and the faults. The limits stand
 * here as data, from which both the policy of the gateway is written and the oracles count.
 */
import type { HoldRecord } from '../../src/ports.ts'
import { drawOf } from './world.ts'

export const second = 1_000

/** A limit of the policy, as the oracles read it. */
export interface LimitRule {
  readonly name: string
  /** @defaultValue every category */
  readonly category?: string
  /** @defaultValue every channel */
  readonly channel?: string
  readonly per: readonly ('recipient' | 'actor')[]
  readonly max: number
  readonly windowMs: number
  readonly minGapMs?: number
  readonly over: string
}

/** A limit of acceptances of a tenant, or of each of its modules. */
export interface RateRule {
  readonly of: 'tenant' | 'module'
  readonly tenant: string
  readonly max: number
  readonly windowMs: number
}

export interface AccountRule {
  readonly id: string
  readonly windows: readonly { readonly max: number; readonly windowMs: number }[]
}

/** A hold that an operator puts in force, and may end early. */
export interface HoldPlan {
  readonly at: number
  readonly forMs: number
  /** It is put in force while an answer of the limits travels that lets a notification leave: at the first one from then on. */
  readonly isBeforeCall?: boolean
  /** The operator ends it this much later. */
  readonly endAfterMs?: number
  readonly selection: Pick<HoldRecord, 'tenant' | 'channel' | 'category' | 'account'>
}

/** A span in which an account carries nothing. */
interface Outage {
  readonly account: string
  readonly from: number
  readonly to: number
  readonly fate: 'fail' | 'limit'
}

/** The requests of applications, where a run concentrates on something. Whoever is named more often gets more. */
interface Traffic {
  readonly tenants: readonly string[]
  readonly recipients: readonly string[]
  /** The category of all messages. @defaultValue any */
  readonly category?: (typeof categories)[number]
  /** Shares of the kinds of requests; the rest are posts. */
  readonly shares: Readonly<Partial<Record<string, number>>>
  /** A cancellation meets one of so many that were accepted last. */
  readonly recent: number
  /** A change of preferences is followed by another one of the same recipient at another process, within 3 ms. */
  readonly isTwice: boolean
  /** The first of the two changes opts out of everything, and the second one lifts that. @defaultValue as the seed says */
  readonly isFlip?: boolean
}

export interface Settings {
  readonly seed: number
  /** Epoch ms. */
  readonly start: number
  /** Longest time for which a killed process is away, ms. @defaultValue downMsMax */
  readonly downMsMax?: number
  /** How long traffic lasts, ms. */
  readonly trafficMs: number
  readonly operations: number
  readonly limits: readonly LimitRule[]
  /** The same limits with other numbers, which some processes have: the policy is changed at a start. A drill adds one. */
  readonly changedLimits?: readonly LimitRule[]
  /** The number of the first process that has them. @defaultValue the seed says of each */
  readonly changedFrom?: number
  /** Likewise the rates of tenants, in their order. */
  readonly changedRates?: readonly RateRule[]
  /** Likewise the rates of accounts. */
  readonly changedAccounts?: readonly AccountRule[]
  readonly digestMs: number
  /** Processes whose policy has no digest: limits that would put into one delay there. @defaultValue none */
  readonly withoutDigest?: 'before' | 'changed'
  readonly deduplicationMs: number
  readonly rates: readonly RateRule[]
  readonly queueMax: number
  readonly waitingMax: number
  /** The server of limits answers in time, so that nobody takes room by the record. @defaultValue false */
  readonly isRoomExact?: boolean
  readonly accounts: readonly AccountRule[]
  readonly breakerInARow: number
  /**
   * Subjects that the limiter's state keeps in full; the others are packed, or read from the record again. Absent in runs
   * whose state stands at the end of a wire: between a count and its answer memory forgets no subject.
   */
  readonly subjectsMax?: number
  /** Rows of the record that the limiter's state reads at once: with few, the first who wait are read before the others. */
  readonly recoveryRows?: number
  readonly provider: {
    readonly idempotent: boolean
    /** Shares of calls, of those within a phase of faults. */
    readonly failShare: number
    readonly limitShare: number
    readonly hangShare: number
    readonly lostShare: number
    readonly lateWriteShare: number
    /** The longest time between the gateway's call and its writing, where that is late, ms. @defaultValue 4_000 */
    readonly lateWriteMsMax?: number
    /** Spans in which an account fails every call, or answers each with 429, ms since the start. @defaultValue none */
    readonly outages?: readonly Outage[]
  }
  /** The traffic of a run that concentrates on something. @defaultValue everything */
  readonly traffic?: Traffic
  readonly faults: {
    readonly phases: readonly { readonly from: number; readonly to: number }[]
    readonly delayShare: number
    /** Share of the calls of the limiter's state that are held up. */
    readonly stateDelayShare: number
    readonly refusedShare: number
    readonly lostShare: number
    /** Share of the changes that the store refuses besides. */
    readonly commitRefusedShare: number
    /** Share of the calls of the limiter's state and the queue that are refused. */
    readonly stateRefusedShare: number
    readonly kills: readonly {
      readonly at: number
      readonly after: number
      readonly moment: 'before' | 'performed' | 'answered'
      /** It counts and strikes calls of the provider only. @defaultValue false */
      readonly isAtSend?: boolean
    }[]
    readonly pauses: readonly { readonly at: number; readonly forMs: number }[]
    readonly steps: readonly { readonly at: number; readonly byMs: number }[]
    readonly stops: readonly number[]
    readonly holds: readonly HoldPlan[]
    /** Faults go on to the end: what must come to its end is not looked at. */
    readonly isEndless: boolean
  }
}

export const tenants = ['t1', 't2'] as const
export const modules = ['m1', 'm2'] as const
export const recipients = ['ada', 'bob', 'cleo', 'dan', 'eve', 'fay'] as const
export const actors = ['x', 'y', 'z'] as const
export const categories = ['product', 'marketing', 'activity', 'security'] as const

/** Longest time for which a process is away, ms. */
export const downMsMax = 8_000

export function settingsOf(seed: number): Settings {
  const draw = (key: string): number => drawOf(seed, `settings ${key}`)
  const between = (key: string, least: number, most: number): number =>
    least + Math.floor(draw(key) * (most - least + 1))
  const chance = (key: string, share: number): boolean => draw(key) < share
  // Without any fault, so that whatever is late is late by itself.
  const isCalm = chance('calm', 0.12)
  const times = <T>(key: string, most: number, make: (index: number) => T): T[] =>
    Array.from({ length: isCalm ? 0 : between(key, 0, most) }, (_, index) => make(index))

  const limits: LimitRule[] = [
    {
      name: 'everything',
      per: ['recipient'],
      max: between('everything', 1, 4),
      windowMs: between('everything window', 2, 10) * second,
      ...(chance('gap', 0.5) ? { minGapMs: between('gap ms', 1, 8) * 100 } : {}),
      over: 'delay',
    },
  ]
  if (chance('marketing', 0.6))
    limits.push({
      name: 'marketing',
      category: 'marketing',
      channel: 'email',
      per: ['recipient'],
      max: between('marketing max', 1, 3),
      windowMs: between('marketing window', 3, 15) * second,
      over: chance('marketing over', 0.5) ? 'drop' : 'fallback:sms',
    })
  if (chance('author', 0.6))
    limits.push({
      name: 'author',
      category: 'activity',
      per: chance('author per', 0.7) ? ['recipient', 'actor'] : ['actor'],
      max: between('author max', 1, 2),
      windowMs: between('author window', 3, 12) * second,
      over: chance('author over', 0.5) ? 'delay' : 'digest:news',
    })

  const changedLimits = limits.map((limit) => ({
    ...limit,
    max: between(`changed ${limit.name}`, 1, 4),
    windowMs: between(`changed ${limit.name} window`, 2, 15) * second,
  }))

  const rates: RateRule[] = []
  if (chance('rate', 0.7)) {
    rates.push({ of: 'tenant', tenant: 't1', max: between('rate max', 4, 12), windowMs: 10 * second })
    rates.push({ of: 'module', tenant: 't1', max: between('module max', 3, 10), windowMs: 10 * second })
  }

  const account = (index: number): AccountRule => ({
    id: `account-${index}`,
    windows: [
      { max: between(`account ${index} max`, 2, 10), windowMs: second },
      ...(chance(`account ${index} long`, 0.5)
        ? [{ max: between(`account ${index} long max`, 20, 60), windowMs: 10 * second }]
        : []),
    ],
  })

  function holdOf(index: number): HoldPlan {
    const key = `hold ${index}`
    const pick = <T>(name: string, values: readonly T[]): T =>
      values[between(`${key} ${name}`, 0, values.length - 1)]!
    const selections: readonly HoldPlan['selection'][] = [
      {},
      { tenant: pick('tenant', tenants) },
      { category: pick('category', categories) },
      { tenant: 't1', channel: 'email' },
      { channel: 'email', account: 'account-0' },
    ]
    return {
      at: between(`${key} at`, 1, 45) * second,
      forMs: between(`${key} for`, 1, 20) * second,
      ...(chance(`${key} before call`, 0.5) ? { isBeforeCall: true } : {}),
      ...(chance(`${key} ends`, 0.4) ? { endAfterMs: between(`${key} end`, 1, 15_000) } : {}),
      selection: pick('selection', selections),
    }
  }

  const isEndless = !isCalm && chance('endless', 0.15)
  const phaseCount = isCalm ? 0 : between('phases', 1, 3)
  const phases = Array.from({ length: phaseCount }, (_, index) => {
    const from = between(`phase ${index}`, 0, 40) * second
    return {
      from,
      to: isEndless ? Number.MAX_SAFE_INTEGER : from + between(`phase ${index} for`, 3, 20) * second,
    }
  })
  const isRough = chance('rough', 0.6)
  const isStateSlow = chance('slow state', 0.2)
  const delayShare = chance('delays', 0.8) ? draw('delay') * 0.15 : 0

  return {
    seed,
    // Shortly before noon, so that hours that begin or end at noon do so within the run.
    start: Date.UTC(2026, 10, 21, 11, 59, 30),
    trafficMs: 60 * second,
    operations: between('operations', 40, 160),
    limits,
    ...(chance('policy changes', 0.3) ? { changedLimits } : {}),
    digestMs: between('digest', 3, 8) * second,
    deduplicationMs: chance('deduplication', 0.5) ? 20 * second : 0,
    rates,
    queueMax: chance('narrow queue', 0.3) ? between('queue', 5, 20) : 10_000,
    waitingMax: chance('narrow waiting', 0.3) ? between('waiting', 15, 30) : 10_000,
    accounts: Array.from({ length: between('accounts', 1, 3) }, (_, index) => account(index)),
    breakerInARow: between('in a row', 3, 6),
    ...(chance('packed', 0.25) ? { subjectsMax: between('packed subjects', 6, 12) } : {}),
    ...(chance('short pages', 0.5) ? { recoveryRows: between('rows of a page', 2, 8) } : {}),
    provider: {
      idempotent: chance('idempotent', 0.5),
      failShare: isRough ? draw('fail') * 0.3 : 0,
      limitShare: isRough ? draw('limit') * 0.15 : 0,
      hangShare: isRough ? draw('hang') * 0.05 : 0,
      lostShare: isRough ? draw('lost') * 0.1 : 0,
      lateWriteShare:
        isStateSlow || chance('late writes', 0.5)
          ? (isStateSlow ? 0.2 : 0) + draw('late') * (isStateSlow ? 0.6 : 0.2)
          : 0,
    },
    faults: {
      phases,
      delayShare,
      stateDelayShare: isStateSlow ? 0.2 + draw('state delay') * 0.6 : delayShare,
      refusedShare: chance('refusals', 0.5) ? draw('refused') * 0.05 : 0,
      commitRefusedShare: chance('refused changes', 0.12) ? 0.1 + draw('refused change') * 0.3 : 0,
      lostShare: chance('losses', 0.5) ? draw('loss') * 0.03 : 0,
      stateRefusedShare: chance('state refusals', 0.3) ? draw('state refused') * 0.05 : 0,
      kills: times('kills', 4, (index) => ({
        at: between(`kill ${index}`, 1, 55 * second),
        after: between(`kill ${index} after`, 0, 40),
        moment: (['before', 'performed', 'answered'] as const)[between(`kill ${index} moment`, 0, 2)]!,
      })).sort((a, b) => a.at - b.at),
      pauses: times('pauses', 2, (index) => ({
        at: between(`pause ${index}`, 1, 50 * second),
        forMs: between(`pause ${index} for`, 100, 8 * second),
      })),
      steps: times('steps', 2, (index) => ({
        at: between(`step ${index}`, 1, 50 * second),
        byMs: between(`step ${index} by`, -3_600, 3_600) * second,
      })),
      stops: times('stops', 1, (index) => between(`stop ${index}`, 5 * second, 50 * second)),
      holds: chance('held', 0.35) ? times('holds', 2, holdOf) : [],
      isEndless,
    },
  }
}

/** True if an engine may refuse a call: then a turn of a throttle queue may be taken twice. */
export const isRefusing = ({ faults }: Settings): boolean =>
  faults.refusedShare + faults.commitRefusedShare + faults.stateRefusedShare > 0

/** True if the process, by its number, has the configuration of before. */
export const isBeforeChange = ({ seed, changedFrom }: Settings, process: number): boolean =>
  changedFrom === undefined ? drawOf(seed, `policy of ${process}`) < 0.5 : process < changedFrom

/** The limits of a process, by its number. */
export const limitsOf = (settings: Settings, process: number): readonly LimitRule[] =>
  isBeforeChange(settings, process) ? settings.limits : (settings.changedLimits ?? settings.limits)

/** The accounts of a process, by its number. */
export const accountsOf = (settings: Settings, process: number): readonly AccountRule[] =>
  isBeforeChange(settings, process) ? settings.accounts : (settings.changedAccounts ?? settings.accounts)

const ratesOf = (settings: Settings, process: number): readonly RateRule[] =>
  isBeforeChange(settings, process) ? settings.rates : (settings.changedRates ?? settings.rates)

/** The policy of a process as a document. */
export function policyOf(settings: Settings, process: number): object {
  const { digestMs, deduplicationMs, withoutDigest } = settings
  const limits = limitsOf(settings, process)
  const hasDigest = withoutDigest !== (isBeforeChange(settings, process) ? 'before' : 'changed')
  return {
    version: 1,
    limits: limits.map(({ name, category, channel, per, max, windowMs, minGapMs, over }) => ({
      name,
      for: category === undefined ? 'any' : { category, ...(channel === undefined ? {} : { channel }) },
      per,
      max: [`${max}/${windowMs}ms`],
      ...(minGapMs === undefined ? {} : { minGap: `${minGapMs}ms` }),
      over: over.startsWith('digest') && !hasDigest ? 'delay' : over,
    })),
    digests: hasDigest
      ? [
          {
            name: 'news',
            for: { template: 'news' },
            window: `${digestMs}ms`,
            minItems: 2,
            maxItems: 20,
            template: 'news-digest',
          },
        ]
      : [],
    ...(deduplicationMs === 0 ? {} : { deduplication: { window: `${deduplicationMs}ms` } }),
  }
}

/** The configuration of the gateway as a document. */
export function configOf(settings: Settings, process: number): object {
  const { queueMax, waitingMax, breakerInARow } = settings
  const [rates, accounts] = [ratesOf(settings, process), accountsOf(settings, process)]
  const rateOf = (tenant: string, of: RateRule['of']): string => {
    const rule = rates.find((each) => each.tenant === tenant && each.of === of)
    return rule === undefined ? 'unlimited' : `${rule.max}/${rule.windowMs}ms`
  }
  const pool = {
    provider: 'sandbox',
    accounts: accounts.map(({ id, windows }) => ({
      id,
      rate: windows.length === 0 ? 'unlimited' : windows.map(({ max, windowMs }) => `${max}/${windowMs}ms`),
    })),
    timeout: '3s',
    retry: { base: '500ms', cap: '4s', attempts: 4, budget: '50%' },
    breaker: { inARow: breakerInARow, coolDown: '1s', coolDownMax: '4s' },
  }
  const smsPool = { ...pool, accounts: pool.accounts.map((each) => ({ ...each, id: `sms-${each.id}` })) }
  return {
    store: 'sqlite::memory:',
    policy: './policy.yaml',
    log: { level: 'silent' },
    tenants: {
      default: { rate: 'unlimited', modules: 'unlimited' },
      ...Object.fromEntries(
        tenants.map((tenant) => [
          tenant,
          {
            rate: rateOf(tenant, 'tenant'),
            modules: rateOf(tenant, 'module'),
            queue: queueMax,
            waiting: waitingMax,
          },
        ]),
      ),
    },
    pools: { email: pool, sms: smsPool },
  }
}
