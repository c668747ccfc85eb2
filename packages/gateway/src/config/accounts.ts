/**
 * One account of a pool: its address, its secrets read from where they are kept, its rate, and what its provider
 * alone understands. Only fields in whose form nothing is wrong come here; what is wrong with their meaning is told.
 */
import { type Channel, channels, type JsonObject } from '../model.ts'
import type { AccountConfig, ProviderName, Rate } from './config.ts'
import {
  type AccountDocument,
  type SandboxAccountDocument,
  type SmtpAccountDocument,
  webhookSecret,
} from './pool-schema.ts'
import { readDuration, readRate, readShare } from './quantity.ts'
import type { Source } from './source.ts'
import type { Path } from './yaml-file.ts'

interface Terms {
  readonly channels: readonly Channel[]
  /** Calls under way at once, where the account does not say. */
  readonly concurrencyMax: number
  /** Of the account's URL; empty where there is none. */
  readonly schemes: readonly string[]
}

export const terms: Readonly<Record<ProviderName, Terms>> = {
  smtp: { channels: ['email'], concurrencyMax: 16, schemes: ['smtp:', 'smtps:'] },
  webhook: { channels, concurrencyMax: 64, schemes: ['http:', 'https:'] },
  sandbox: { channels, concurrencyMax: 1_024, schemes: [] },
}

const unlimited: Rate = { text: 'unlimited', windows: [] }

/** What real providers commonly allow an account (design: product, 3). */
const usualRates: Readonly<Partial<Record<Channel, Rate>>> = {
  email: readRate('100/s, 50000/h'),
  sms: readRate('10/s'),
  push: readRate('500/s'),
}

export interface AccountPlace {
  readonly channel: Channel
  readonly provider: ProviderName
  readonly path: Path
  readonly source: Source
}

export function readAccount(written: AccountDocument, place: AccountPlace): AccountConfig {
  const { channel, provider, path, source } = place
  const account = source.sound(path, written)
  const url =
    'url' in account || 'urlFile' in account
      ? source.secret([...path, 'url'], account.url, account.urlFile)
      : undefined
  checkUrl(url, place)
  const secret =
    'secret' in account || 'secretFile' in account
      ? source.secret([...path, 'secret'], account.secret, account.secretFile)
      : undefined
  if (secret !== undefined && !new RegExp(webhookSecret).test(secret)) {
    source.fault([...path, 'secretFile'], 'names a file that holds no whsec_ and key in base64')
  }
  const usual = provider === 'sandbox' ? unlimited : (usualRates[channel] ?? unlimited)
  return {
    account: {
      id: account.id,
      ...(url === undefined ? {} : { url }),
      ...(secret === undefined ? {} : { secret }),
      options: optionsOf(account, place),
    },
    rate: account.rate === undefined ? usual : readRate(account.rate),
    concurrencyMax:
      provider === 'smtp'
        ? smtpConcurrency(account)
        : (account.concurrency ?? terms[provider].concurrencyMax),
  }
}

function checkUrl(url: string | undefined, { channel, provider, path, source }: AccountPlace): void {
  const { schemes } = terms[provider]
  const at = [...path, 'url']
  if (schemes.length === 0 || !source.isClean(at) || !source.isClean([...path, 'urlFile'])) return
  const expected = `expected a URL with ${schemes.map((scheme) => `${scheme}//`).join(' or ')}`
  if (url === undefined) {
    // Only the channel webhook finds an address with the recipient.
    if (provider !== 'webhook' || channel !== 'webhook') source.fault(at, `is missing; ${expected}`)
  } else if (!URL.canParse(url) || !schemes.includes(new URL(url).protocol) || new URL(url).hostname === '') {
    source.fault(at, expected)
  }
}

/** What the provider alone understands. */
function optionsOf(account: AccountDocument, place: AccountPlace): JsonObject {
  switch (place.provider) {
    case 'smtp':
      return smtpOptions(account, place)
    case 'sandbox':
      return sandboxOptions(account, place)
    case 'webhook':
      return {}
  }
}

/** In the words of the sandbox: how long it takes, what it allows, how it breaks. */
function sandboxOptions(account: SandboxAccountDocument, { path, source }: AccountPlace): JsonObject {
  const { latency, allows, odds } = account
  const shares = Object.entries(odds ?? {}).map(([mishap, share]) => [mishap, readShare(share)] as const)
  if (shares.reduce((sum, [, share]) => sum + share, 0) > 1 + 1e-9)
    source.fault([...path, 'odds'], 'is more than 100% together')
  return {
    ...(latency === undefined ? {} : { latency: readDuration(latency) }),
    ...(allows === undefined
      ? {}
      : { rates: readRate(allows).windows.map(({ max, windowMs }) => ({ max, windowMs })) }),
    ...(odds === undefined ? {} : { odds: Object.fromEntries(shares) }),
  }
}

/** A mail that waits for a connection leaves later than it was counted, so there is one for each call. */
function connectionsOf({ connections, concurrency }: SmtpAccountDocument): number {
  return connections ?? Math.min(concurrency ?? terms.smtp.concurrencyMax, 1_000)
}

function smtpConcurrency(account: SmtpAccountDocument): number {
  return account.concurrency ?? connectionsOf(account)
}

function smtpOptions(account: SmtpAccountDocument, { path, source }: AccountPlace): JsonObject {
  const { from, tls } = account
  const dkimPath = [...path, 'dkim']
  const dkim = source.isClean(dkimPath) ? account.dkim : undefined
  const privateKey = dkim && source.secret([...dkimPath, 'privateKey'], dkim.privateKey, dkim.privateKeyFile)
  if (dkim !== undefined && privateKey === undefined && source.isClean(dkimPath)) {
    source.fault([...dkimPath, 'privateKey'], 'is missing; expected it or privateKeyFile')
  }
  return {
    ...(from === undefined ? {} : { from }),
    ...(tls === undefined ? {} : { tls }),
    connections: connectionsOf(account),
    ...(dkim === undefined || privateKey === undefined
      ? {}
      : { dkim: { domainName: dkim.domainName, keySelector: dkim.keySelector, privateKey } }),
  }
}
