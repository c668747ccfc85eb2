/**
 * From the `pools` of the file to pools that can be opened: every channel that is served, its provider, and its
 * accounts with their rates. Without any `pools` the sandbox serves every channel; with some, only what they name.
 */
import { type Channel, channels, type JsonObject } from '../model.ts'
import type { AccountConfig, PoolConfig, ProviderName, Rate } from './config.ts'
import { notCarriedYet } from './environment.ts'
import type { AccountDocument, PoolDocument, SmtpAccountDocument } from './pool-schema.ts'
import { readDuration, readRate } from './quantity.ts'
import type { Source } from './source.ts'
import type { Path } from './yaml-file.ts'

export type PoolsDocument = Readonly<Partial<Record<Channel, PoolDocument | readonly PoolDocument[]>>>

const unlimited: Rate = { text: 'unlimited', windows: [] }

/** What real providers commonly allow an account (design: product, 3). */
const usualRates: Readonly<Partial<Record<Channel, Rate>>> = {
  email: readRate('100/s, 50000/h'),
  sms: readRate('10/s'),
  push: readRate('500/s'),
}

/** What serves a channel when nothing is said, and what one account then has. */
const terms = {
  smtp: { channels: ['email'], concurrencyMax: 32, schemes: ['smtp:', 'smtps:'] },
  webhook: { channels, concurrencyMax: 64, schemes: ['http:', 'https:'] },
  sandbox: { channels, concurrencyMax: 1_024, schemes: [] },
} as const satisfies Record<
  ProviderName,
  { channels: readonly Channel[]; concurrencyMax: number; schemes: readonly string[] }
>

const timeoutMs = 15_000
const retry = { baseMs: 1_000, capMs: 300_000, attemptsMax: 6 } as const

export function readPools(document: PoolsDocument | undefined, source: Source): readonly PoolConfig[] {
  if (document === undefined || Object.keys(document).length === 0) {
    return channels.map((channel) => readPool(channel, { provider: 'sandbox' }, ['pools', channel], source))
  }
  const pools: PoolConfig[] = []
  for (const channel of channels) {
    const written = document[channel]
    const path = ['pools', channel]
    if (written === undefined || !source.isClean(path)) continue
    const list = Array.isArray(written) ? (written as readonly PoolDocument[]) : undefined
    if (list !== undefined && list.length > 1)
      source.fault([...path, 1], `a second pool for a channel ${notCarriedYet}`)
    const pool = list === undefined ? (written as PoolDocument) : list[0]!
    pools.push(readPool(channel, pool, list === undefined ? path : [...path, 0], source))
  }
  return pools
}

function readPool(channel: Channel, pool: PoolDocument, path: Path, source: Source): PoolConfig {
  const { provider } = pool
  const carried: readonly Channel[] = terms[provider].channels
  if (!carried.includes(channel)) {
    source.fault([...path, 'provider'], `${provider} carries ${carried.join(', ')}, not ${channel}`)
  }
  const accounts: readonly AccountDocument[] = pool.accounts ?? [{ id: provider }]
  const ids = new Set<string>()
  accounts.forEach((account, index) => {
    if (ids.has(account.id))
      source.fault(
        [...path, 'accounts', index, 'id'],
        `"${account.id}" is the id of another account of this pool`,
      )
    ids.add(account.id)
  })
  const base = pool.retry?.base === undefined ? retry.baseMs : readDuration(pool.retry.base)
  const cap = pool.retry?.cap === undefined ? Math.max(base, retry.capMs) : readDuration(pool.retry.cap)
  if (cap < base) source.fault([...path, 'retry', 'cap'], 'is shorter than base')
  return {
    channel,
    provider,
    accounts: accounts.map((account, index) =>
      readAccount(channel, provider, account, [...path, 'accounts', index], source),
    ),
    timeoutMs: pool.timeout === undefined ? timeoutMs : readDuration(pool.timeout),
    retry: { baseMs: base, capMs: cap, attemptsMax: pool.retry?.attempts ?? retry.attemptsMax },
  }
}

function readAccount(
  channel: Channel,
  provider: ProviderName,
  account: AccountDocument,
  path: Path,
  source: Source,
): AccountConfig {
  const url =
    'url' in account || 'urlFile' in account
      ? source.secret([...path, 'url'], account.url, account.urlFile)
      : undefined
  checkUrl(channel, provider, url, path, source)
  const secret =
    'secret' in account || 'secretFile' in account
      ? source.secret([...path, 'secret'], account.secret, account.secretFile)
      : undefined
  const usual = provider === 'sandbox' ? unlimited : (usualRates[channel] ?? unlimited)
  return {
    account: {
      id: account.id,
      ...(url === undefined ? {} : { url }),
      ...(secret === undefined ? {} : { secret }),
      options: optionsOf(provider, account, path, source),
    },
    rate: account.rate === undefined ? usual : readRate(account.rate),
    concurrencyMax: account.concurrency ?? terms[provider].concurrencyMax,
  }
}

function checkUrl(
  channel: Channel,
  provider: ProviderName,
  url: string | undefined,
  path: Path,
  source: Source,
): void {
  const schemes: readonly string[] = terms[provider].schemes
  const at = [...path, 'url']
  if (schemes.length === 0 || !source.isClean(path)) return
  if (url === undefined) {
    // A webhook alone finds its address with the recipient.
    if (provider !== 'webhook' || channel !== 'webhook')
      source.fault(at, `is missing; expected a URL with ${schemes.join(' or ')}//`)
  } else if (!URL.canParse(url) || !schemes.includes(new URL(url).protocol) || new URL(url).hostname === '') {
    source.fault(at, `expected a URL with ${schemes.join(' or ')}//`)
  }
}

/** What the provider alone understands, with its secrets read. */
function optionsOf(provider: ProviderName, account: AccountDocument, path: Path, source: Source): JsonObject {
  if (provider !== 'smtp') return {}
  const { from, connections, dkim } = account as SmtpAccountDocument
  const privateKey =
    dkim && source.secret([...path, 'dkim', 'privateKey'], dkim.privateKey, dkim.privateKeyFile)
  if (dkim !== undefined && privateKey === undefined && source.isClean([...path, 'dkim'])) {
    source.fault([...path, 'dkim', 'privateKey'], 'is missing; expected it or privateKeyFile')
  }
  return {
    ...(from === undefined ? {} : { from }),
    ...(connections === undefined ? {} : { connections }),
    ...(dkim === undefined
      ? {}
      : {
          dkim: { domainName: dkim.domainName, keySelector: dkim.keySelector, privateKey: privateKey ?? '' },
        }),
  }
}
