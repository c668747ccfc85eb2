/**
 * The settings of an SMTP account, checked once: the server, the login, the sender, the DKIM key. The url holds most
 * of them; `options` of the account take precedence over the url's query, and both over the provider's own options.
 */
import { readFileSync } from 'node:fs'
import { SluiceError } from '../../errors.ts'
import type { JsonValue } from '../../model.ts'
import type { Account } from '../../ports.ts'
import { parseSender, type Sender } from '../transport/mail-address.ts'

/**
 * `auto`: STARTTLS where the server offers it, needed where there is a password, left out on loopback.
 * `required`: never without. `unverified`: like auto, with any certificate. `off`: never.
 */
const tlsModes = ['auto', 'required', 'unverified', 'off'] as const
type TlsMode = (typeof tlsModes)[number]

interface DkimOptions {
  readonly domainName: string
  readonly keySelector: string
  /** Private key in PEM. */
  readonly privateKey?: string
  /** Path of the PEM, read at start. */
  readonly privateKeyFile?: string
}

export interface SmtpDefaults {
  /** Display name and address of the sender. @defaultValue Sluice <notifications@localhost> */
  readonly from?: string
  /** Connections kept open to the server, and so the most mails under way at once. @defaultValue 8 */
  readonly connections?: number
  /** Signs every mail (RFC 6376). @defaultValue none */
  readonly dkim?: DkimOptions
}

export interface SmtpAccount {
  readonly host: string
  readonly port: number
  /** TLS from the first byte on. */
  readonly secure: boolean
  readonly tls: TlsMode
  readonly loopback: boolean
  readonly user: string | undefined
  readonly password: string
  readonly from: Sender
  readonly connections: number
  /** Name of another header that holds the notification's id. */
  readonly idHeader: string | undefined
  readonly dkim:
    | { readonly domainName: string; readonly keySelector: string; readonly privateKey: string }
    | undefined
}

/** Throws INVALID_CONFIG; never shows the password. */
export function parseSmtpAccount(account: Account, defaults: SmtpDefaults): SmtpAccount {
  const refuse = (what: string): never => {
    throw new SluiceError('INVALID_CONFIG', `smtp account ${account.id}: ${what}`)
  }
  const text = account.url ?? 'smtp://localhost:25'
  const url = URL.canParse(text) ? new URL(text) : refuse('the url is none')
  if (url.protocol !== 'smtp:' && url.protocol !== 'smtps:')
    refuse('the url must begin with smtp:// or smtps://')
  if (url.hostname === '') refuse('the url names no host')
  const setting = (name: string): JsonValue | undefined =>
    account.options[name] ?? url.searchParams.get(name) ?? undefined

  const connections = Number(setting('connections') ?? defaults.connections ?? 8)
  if (!Number.isInteger(connections) || connections < 1 || connections > 1_000)
    refuse('connections must be 1 to 1000')
  const tls = (setting('tls') ?? 'auto') as TlsMode
  if (!tlsModes.includes(tls)) refuse(`tls must be one of ${tlsModes.join(', ')}`)
  const from = parseSender(String(setting('from') ?? defaults.from ?? 'Sluice <notifications@localhost>'))
  const secure = url.protocol === 'smtps:'
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return {
    host,
    port: url.port === '' ? (secure ? 465 : 25) : Number(url.port),
    secure,
    tls,
    loopback: host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host),
    user: url.username === '' ? undefined : decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    from: 'fault' in from ? refuse(`from: ${from.fault}`) : from,
    connections,
    idHeader: account.options.idHeader as string | undefined,
    dkim: parseDkim((account.options.dkim ?? defaults.dkim) as DkimOptions | undefined, refuse),
  }
}

function parseDkim(dkim: DkimOptions | undefined, refuse: (what: string) => never): SmtpAccount['dkim'] {
  if (dkim === undefined) return undefined
  const { domainName, keySelector, privateKeyFile } = dkim
  if (!domainName || !keySelector) refuse('dkim needs domainName and keySelector')
  let privateKey = dkim.privateKey
  try {
    if (privateKeyFile !== undefined) privateKey = readFileSync(privateKeyFile, 'utf8')
  } catch (error) {
    refuse(`dkim.privateKeyFile cannot be read (${(error as Error).message})`)
  }
  return {
    domainName,
    keySelector,
    privateKey: privateKey ?? refuse('dkim needs privateKey or privateKeyFile'),
  }
}
