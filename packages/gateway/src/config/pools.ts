/**
 * From the `pools` of the file to pools that can be opened: every channel that is served, its provider, and its
 * accounts with their rates. Without any `pools` the sandbox serves every channel; with some, only what they name,
 * and `websocket`, which needs nobody else.
 */
import { type Channel, channels, type JsonObject } from '../model.ts'
import { readAccount } from './accounts.ts'
import type { PoolConfig, RetryConfig } from './config.ts'
import { notCarriedYet } from './environment.ts'
import type { PoolDocument } from './pool-schema.ts'
import type { AccountDocument } from './providers/provider.ts'
import { providers } from './providers/table.ts'
import { readDuration } from './quantity.ts'
import type { Source } from './source.ts'
import type { Path } from './yaml-file.ts'

export type PoolsDocument = Readonly<Partial<Record<Channel, PoolDocument | readonly PoolDocument[]>>>

const timeoutMs = 15_000
const usualRetry: RetryConfig = { baseMs: 1_000, capMs: 300_000, attemptsMax: 6 }

export function readPools(document: PoolsDocument | undefined, source: Source): readonly PoolConfig[] {
  if (document === undefined || Object.keys(document).length === 0) {
    return channels.map((channel) => readPool(channel, { provider: 'sandbox' }, ['pools', channel], source))
  }
  const pools: PoolConfig[] = []
  for (const channel of channels) {
    const written = document[channel]
    const path = ['pools', channel]
    if (written === undefined) {
      // The gateway's own door: there is no service that would have to be named first.
      if (channel === 'websocket') pools.push(readPool(channel, { provider: 'websocket' }, path, source))
      continue
    }
    const list = Array.isArray(written) ? (written as readonly PoolDocument[]) : undefined
    if (list !== undefined && list.length > 1)
      source.fault([...path, 1], `a second pool for a channel ${notCarriedYet}`)
    const [pool, at] = list === undefined ? [written as PoolDocument, path] : [list[0], [...path, 0]]
    // What is wrong with its form has been told; the rest is still looked at, so that all is told at once.
    if (pool !== undefined && Object.hasOwn(providers, pool.provider))
      pools.push(readPool(channel, pool, at, source))
  }
  checkSandboxIds(pools, source)
  return pools
}

/** The sandbox is one for all channels and knows its accounts by id, so one id cannot behave in two ways. */
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

/** How each account of the sandbox behaves, by id, in the words of its adapter. */
export function sandboxBehaviours(pools: readonly PoolConfig[]): Readonly<Record<string, JsonObject>> {
  const accounts = pools.filter(({ provider }) => provider === 'sandbox').flatMap((pool) => pool.accounts)
  return Object.fromEntries(accounts.map(({ account }) => [account.id, account.options]))
}

function readPool(channel: Channel, written: PoolDocument, path: Path, source: Source): PoolConfig {
  const { provider } = written
  const { timeout, retry } = source.sound<PoolDocument>(path, written)
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

function readRetry(retry: PoolDocument['retry'], path: Path, source: Source): RetryConfig {
  const baseMs = retry?.base === undefined ? usualRetry.baseMs : readDuration(retry.base)
  const capMs = retry?.cap === undefined ? Math.max(baseMs, usualRetry.capMs) : readDuration(retry.cap)
  if (capMs < baseMs) source.fault([...path, 'cap'], 'is shorter than base')
  return { baseMs, capMs, attemptsMax: retry?.attempts ?? usualRetry.attemptsMax }
}
