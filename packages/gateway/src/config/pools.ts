/**
 * Reads `pools` into pools that can be opened: every served channel, its provider, and its accounts with their
 * rates. Without any `pools` the sandbox serves every channel; otherwise only the named channels are served,
 * and `websocket`, which needs no external service.
 */
import { type BreakerPolicy, defaultBreakerPolicy } from '../delivery/accounts/breaker.ts'
import { defaultRetryPolicy, type Patience, type RetryPolicy } from '../delivery/retry-policy.ts'
import { type Channel, channels, type JsonObject } from '../model.ts'
import { providers } from '../providers/configs.ts'
import type { AccountDocument } from '../providers/provider-config.ts'
import { readAccount } from './accounts.ts'
import type { AdaptiveConfig, PoolConfig } from './config.ts'
import type { PoolDocument } from './pool-schema.ts'
import { readDuration, readShare } from './quantity.ts'
import type { Source } from './source.ts'
import type { Path } from './yaml-file.ts'

export type PoolsDocument = Readonly<Partial<Record<Channel, PoolDocument | readonly PoolDocument[]>>>

const timeoutMs = 15_000
const shedAfterMs = 5_000
const criticalShare = 0.1

export function readPools(document: PoolsDocument | undefined, source: Source): readonly PoolConfig[] {
  if (document === undefined || Object.keys(document).length === 0) {
    return channels.map((channel) => readPool(channel, { provider: 'sandbox' }, ['pools', channel], source))
  }
  const pools: PoolConfig[] = []
  for (const channel of channels) {
    const written = document[channel]
    const path = ['pools', channel]
    if (written === undefined) {
      // The gateway serves it itself: there is no service to configure first.
      if (channel === 'websocket') pools.push(readPool(channel, { provider: 'websocket' }, path, source))
      continue
    }
    const places: readonly [PoolDocument, Path][] = Array.isArray(written)
      ? (written as readonly PoolDocument[]).map((pool, index) => [pool, [...path, index]])
      : [[written as PoolDocument, path]]
    const ofChannel: PoolConfig[] = []
    for (const [pool, at] of places) {
      // Mistakes in its form have been noted; the rest is still checked, so that all mistakes are reported at
      // once.
      if (typeof pool === 'object' && pool !== null && Object.hasOwn(providers, pool.provider))
        ofChannel.push(readPool(channel, pool, at, source))
    }
    checkNames(ofChannel, path, source)
    pools.push(...ofChannel)
  }
  checkSandboxIds(pools, source)
  return pools
}

/** Checks names: timelines, holds and webhooks know an account by channel and id. */
function checkNames(pools: readonly PoolConfig[], path: Path, source: Source): void {
  const seen = new Map<string, number>()
  for (const [index, { accounts }] of pools.entries()) {
    for (const { account } of accounts) {
      const name = account.id
      const other = seen.get(name)
      if (other !== undefined && other !== index)
        source.fault(
          [...path, index, 'accounts'],
          `"${account.id}" is the id of an account of the pool before`,
        )
      seen.set(name, index)
    }
  }
}

/**
 * Checks sandbox ids: the sandbox is one for all channels and knows its accounts by id, so one id cannot behave
 * in two ways.
 */
function checkSandboxIds(pools: readonly PoolConfig[], source: Source): void {
  const behaviours = new Map<string, string>()
  for (const { channel, provider, accounts } of pools) {
    if (provider !== 'sandbox') continue
    for (const { account } of accounts) {
      const behaviour = JSON.stringify(account.options)
      const other = behaviours.get(account.id)
      if (other !== undefined && other !== behaviour) {
        source.fault(
          ['pools', channel, 'accounts'],
          `"${account.id}" behaves otherwise in another channel; give it an id of its own`,
        )
      }
      behaviours.set(account.id, behaviour)
    }
  }
}

/** The channels for which there is a pool. */
export const channelsOf = (pools: readonly PoolConfig[]): readonly Channel[] => [
  ...new Set(pools.map(({ channel }) => channel)),
]

/** Finds channels on which every account has a fixed address: no recipient needs one there. */
export function selfAddressed(pools: readonly PoolConfig[]): ReadonlySet<Channel> {
  const callsItsOwn = ({ channel, provider, accounts }: PoolConfig): boolean =>
    providers[provider].addressedBy === channel && accounts.every(({ account }) => account.url !== undefined)
  const served = pools.filter(callsItsOwn).map(({ channel }) => channel)
  return new Set(
    served.filter((channel) => pools.every((pool) => pool.channel !== channel || callsItsOwn(pool))),
  )
}

/** Finds channels on which some provider requires a subject: any of them may send the notification. */
export function needsSubject(pools: readonly PoolConfig[]): ReadonlySet<Channel> {
  return new Set(
    pools.filter(({ provider }) => providers[provider].needsSubject).map(({ channel }) => channel),
  )
}

/** Collects the behaviour of each sandbox account by id, in the words of its adapter. */
export function sandboxBehaviours(pools: readonly PoolConfig[]): Readonly<Record<string, JsonObject>> {
  const accounts = pools.filter(({ provider }) => provider === 'sandbox').flatMap((pool) => pool.accounts)
  return Object.fromEntries(accounts.map(({ account }) => [account.id, account.options]))
}

function readPool(channel: Channel, written: PoolDocument, path: Path, source: Source): PoolConfig {
  const { provider } = written
  const { timeout, retry, breaker, shedding, shedAfter, critical, adaptive } = source.sound<PoolDocument>(
    path,
    written,
  )
  const definition = providers[provider]
  const { channels: carried } = definition
  if (!carried.includes(channel))
    source.fault([...path, 'provider'], `${provider} carries ${carried.join(', ')}, not ${channel}`)
  const listed: readonly AccountDocument[] = written.accounts ?? [{ id: provider }]
  const accounts = (Array.isArray(listed) ? listed : []).map((account, index) =>
    readAccount(account, definition, { channel, path: [...path, 'accounts', index], source }),
  )
  checkIds(
    accounts.map(({ account }) => account.id),
    [...path, 'accounts'],
    source,
  )
  return {
    channel,
    provider,
    accounts,
    timeoutMs: timeout === undefined ? timeoutMs : readDuration(timeout),
    retry: readRetry(retry, [...path, 'retry'], source),
    breaker: readBreaker(breaker, [...path, 'breaker'], source),
    shedding: shedding ?? true,
    shedAfterMs: shedAfter === undefined ? shedAfterMs : readDuration(shedAfter),
    criticalShare: critical === undefined ? criticalShare : readShare(critical),
    adaptive: readAdaptive(adaptive),
  }
}

function checkIds(ids: readonly (string | undefined)[], path: Path, source: Source): void {
  const seen = new Set<string>()
  ids.forEach((id, index) => {
    if (id === undefined) return
    if (seen.has(id))
      source.fault([...path, index, 'id'], `"${id}" is the id of another account of this pool`)
    seen.add(id)
  })
}

function readRetry(retry: PoolDocument['retry'], path: Path, source: Source): RetryPolicy {
  const baseMs = retry?.base === undefined ? defaultRetryPolicy.baseMs : readDuration(retry.base)
  const capMs =
    retry?.cap === undefined ? Math.max(baseMs, defaultRetryPolicy.capMs) : readDuration(retry.cap)
  if (capMs < baseMs) source.fault([...path, 'cap'], 'is shorter than base')
  const budget = retry?.budget === undefined ? defaultRetryPolicy.budget : readShare(retry.budget)
  const patience = (kind: 'greylisting' | 'outage'): Patience =>
    readPatience(retry?.[kind], defaultRetryPolicy[kind], retry?.attempts, [...path, kind], source)
  return {
    baseMs,
    capMs,
    attemptsMax: retry?.attempts ?? defaultRetryPolicy.attemptsMax,
    budget,
    greylisting: patience('greylisting'),
    outage: patience('outage'),
  }
}

function readPatience(
  written: NonNullable<PoolDocument['retry']>['outage'],
  usual: Patience,
  attemptsMax: number | undefined,
  path: Path,
  source: Source,
): Patience {
  const baseMs = written?.base === undefined ? usual.baseMs : readDuration(written.base)
  const capMs = written?.cap === undefined ? Math.max(baseMs, usual.capMs) : readDuration(written.cap)
  if (capMs < baseMs) source.fault([...path, 'cap'], 'is shorter than base')
  const forMs = written?.for === undefined ? usual.forMs : readDuration(written.for)
  return { baseMs, capMs, forMs, ...(attemptsMax === undefined ? {} : { attemptsMax }) }
}

function readBreaker(breaker: PoolDocument['breaker'], path: Path, source: Source): BreakerPolicy {
  const duration = (value: string | number | undefined, missingMs: number): number =>
    value === undefined ? missingMs : readDuration(value)
  const failures =
    breaker?.failures === undefined ? defaultBreakerPolicy.failures : readShare(breaker.failures)
  if (failures === 0) source.fault([...path, 'failures'], 'expected more than 0%: any call would open it')
  const withinMs = duration(breaker?.within, defaultBreakerPolicy.withinMs)
  if (withinMs < 10) source.fault([...path, 'within'], 'expected at least 10ms')
  const coolDownMs = duration(breaker?.coolDown, defaultBreakerPolicy.coolDownMs)
  const coolDownMaxMs = duration(
    breaker?.coolDownMax,
    Math.max(coolDownMs, defaultBreakerPolicy.coolDownMaxMs),
  )
  if (coolDownMaxMs < coolDownMs) source.fault([...path, 'coolDownMax'], 'is shorter than coolDown')
  const { of = defaultBreakerPolicy.of, inARow = defaultBreakerPolicy.inARow } = breaker ?? {}
  return { failures, of, withinMs, inARow, coolDownMs, coolDownMaxMs }
}

function readAdaptive(adaptive: PoolDocument['adaptive']): AdaptiveConfig | undefined {
  if (adaptive === false) return undefined
  const { min = 1, slowdown = 2 } = adaptive === undefined || adaptive === true ? {} : adaptive
  return { min, slowdown }
}
