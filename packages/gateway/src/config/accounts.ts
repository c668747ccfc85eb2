/**
 * Reads one account of a pool: its address, its secrets from files or text, its rate, and the options of its
 * provider. Only fields whose form is valid come here; mistakes in their meaning are noted.
 */
import type { Channel } from '../model.ts'
import type { AccountDocument, AccountPlace, ProviderDefinition } from '../providers/provider-config.ts'
import type { AccountConfig } from './config.ts'
import { readFeedback } from './feedback.ts'
import { type Rate, readDuration, readRate } from './quantity.ts'

/** A margin above this is no network jitter. */
export const marginMaxMs = 1_000

const unlimited: Rate = { text: 'unlimited', windows: [] }

/** The rates that real providers commonly allow an account. */
const usualRates: Readonly<Partial<Record<Channel, Rate>>> = {
  email: readRate('100/s, 50000/h'),
  sms: readRate('10/s'),
  push: readRate('500/s'),
}

export function readAccount(
  written: AccountDocument,
  provider: ProviderDefinition,
  place: AccountPlace,
): AccountConfig {
  const { channel, path, source } = place
  const account = source.sound(path, written)
  const url =
    'url' in account || 'urlFile' in account
      ? source.secret([...path, 'url'], account.url, account.urlFile)
      : provider.url
  checkUrl(url, provider, place)
  checkRequired(account, provider, place)
  const secret =
    'secret' in account || 'secretFile' in account
      ? source.secret([...path, 'secret'], account.secret, account.secretFile)
      : undefined
  const { secretPattern } = provider
  if (
    secret !== undefined &&
    secretPattern !== undefined &&
    !new RegExp(secretPattern.pattern).test(secret)
  ) {
    source.fault([...path, 'secretFile'], `names a file that holds no ${secretPattern.expects}`)
  }
  const options = provider.options(account, place)
  const feedback = readFeedback(written.feedback, {
    path: [...path, 'feedback'],
    source,
    // With an API key the secret is the key's, and webhooks are never signed with that.
    ownAuthToken: provider.authToken === true && options.key === undefined ? secret : undefined,
  })
  const usual =
    provider.rate ?? (provider.schemes.length === 0 ? unlimited : (usualRates[channel] ?? unlimited))
  return {
    account: {
      id: account.id,
      ...(url === undefined ? {} : { url }),
      ...(secret === undefined ? {} : { secret }),
      options,
    },
    rate: account.rate === undefined ? usual : readRate(account.rate),
    concurrencyMax: provider.concurrency(account),
    ...marginOf(account, place),
    ...(feedback === undefined ? {} : { feedback }),
  }
}

function marginOf(
  { margin }: AccountDocument,
  { path, source }: AccountPlace,
): Pick<AccountConfig, 'marginMs'> {
  if (margin === undefined) return {}
  const marginMs = readDuration(margin)
  if (marginMs > marginMaxMs) source.fault([...path, 'margin'], 'expected at most 1s')
  return { marginMs }
}

function checkUrl(
  url: string | undefined,
  { schemes, addressedBy, urlOptional }: ProviderDefinition,
  { channel, path, source }: AccountPlace,
): void {
  const at = [...path, 'url']
  if (schemes.length === 0 || !source.isClean(at) || !source.isClean([...path, 'urlFile'])) return
  const expected = `expected a URL with ${schemes.map((scheme) => `${scheme}//`).join(' or ')}`
  if (url === undefined) {
    if (urlOptional !== true && addressedBy !== channel) source.fault(at, `is missing; ${expected}`)
  } else if (!URL.canParse(url) || !schemes.includes(new URL(url).protocol) || new URL(url).hostname === '') {
    source.fault(at, expected)
  }
}

function checkRequired(
  account: AccountDocument,
  { requires = [] }: ProviderDefinition,
  { path, source }: AccountPlace,
): void {
  for (const name of requires) {
    const clean = source.isClean([...path, name]) && source.isClean([...path, `${name}File`])
    if (clean && !(name in account) && !(`${name}File` in account)) {
      const or = name === 'secret' ? ' or secretFile' : ''
      source.fault([...path, name], or === '' ? 'is missing' : `is missing; expected it${or}`)
    }
  }
}
