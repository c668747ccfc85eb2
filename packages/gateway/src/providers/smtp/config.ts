/** Configuration of an account at a mail server. */
import { createPrivateKey, createSign } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import { count, text } from '../../config/schema-terms.ts'
import { defineProvider, senderExpects, senderPattern, senderTerm } from '../provider-config.ts'

const tlsModes = ['auto', 'required', 'unverified', 'off'] as const
const concurrencyMax = 16

/**
 * One connection for each concurrent call: a mail that waits for a connection would leave later than it was counted.
 */
function connectionsOf({
  connections,
  concurrency,
}: {
  readonly connections?: number
  readonly concurrency?: number
}): number {
  return connections ?? Math.min(concurrency ?? concurrencyMax, 1_000)
}

/**
 * Tells why a key cannot sign mails (RFC 6376, rsa-sha256; RFC 8301: at least 1024 bits); it signs a sample to check.
 */
function signingFault(pem: string): string | undefined {
  try {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType !== 'rsa')
      return `holds a key of the kind ${key.asymmetricKeyType}; expected RSA`
    if ((key.asymmetricKeyDetails?.modulusLength ?? 0) < 1_024)
      return 'holds an RSA key that is too short; expected at least 1024 bits'
    createSign('RSA-SHA256').update('trial').sign(key)
    return undefined
  } catch {
    return 'holds no private key that can sign; expected an RSA key in PEM, not encrypted'
  }
}

/** Reads the sender from the query of an account's URL. */
function senderIn(url: string | undefined): string | undefined {
  return URL.parse(url ?? '')?.searchParams.get('from') ?? undefined
}

export const smtp = defineProvider({
  channels: ['email'],
  concurrencyMax,
  schemes: ['smtp:', 'smtps:'],
  terms: {
    url: Type.Optional(
      text('a URL such as smtp://user:password@mail.example.com:587', {
        description: 'smtp:// or smtps://.',
        secret: true,
      }),
    ),
    urlFile: Type.Optional(text('the path of a file that holds the URL')),
    from: senderTerm,
    connections: Type.Optional(
      count(
        1,
        1_000,
        'Connections kept open, each for one mail at a time. Default: as many as concurrency, 16.',
      ),
    ),
    tls: Type.Optional(
      Type.Union(
        tlsModes.map((mode) => Type.Literal(mode)),
        {
          expects: `one of ${tlsModes.join(', ')}`,
          description:
            'STARTTLS: auto where the server offers it, required, unverified (any certificate), off. Default auto.',
        },
      ),
    ),
    dkim: Type.Optional(
      Type.Object(
        {
          domainName: text('a domain such as example.com'),
          keySelector: text('the selector of the key in the DNS'),
          privateKey: Type.Optional(text('a private key in PEM', { secret: true, pattern: '^-----BEGIN ' })),
          privateKeyFile: Type.Optional(text('the path of a file that holds the private key in PEM')),
        },
        { additionalProperties: false, description: 'Signs every mail (RFC 6376).' },
      ),
    ),
  },
  concurrency: (account) => account.concurrency ?? connectionsOf(account),
  options(account, { path, source }) {
    const { from, tls } = account
    const dkimPath = [...path, 'dkim']
    const dkim = source.isClean(dkimPath) ? account.dkim : undefined
    const privateKey =
      dkim && source.secret([...dkimPath, 'privateKey'], dkim.privateKey, dkim.privateKeyFile)
    if (dkim !== undefined && privateKey === undefined && source.isClean(dkimPath)) {
      source.fault([...dkimPath, 'privateKey'], 'is missing; expected it or privateKeyFile')
    }
    const cannotSign = privateKey && signingFault(privateKey)
    if (cannotSign) {
      const field = dkim?.privateKeyFile === undefined ? 'privateKey' : 'privateKeyFile'
      source.fault([...dkimPath, field], cannotSign)
    }
    const sender = senderIn(account.url)
    if (sender !== undefined && !new RegExp(senderPattern).test(sender))
      source.fault([...path, 'url'], `names a sender in its query that is none; expected ${senderExpects}`)
    return {
      ...(from === undefined ? {} : { from }),
      ...(tls === undefined ? {} : { tls }),
      connections: connectionsOf(account),
      ...(dkim === undefined || privateKey === undefined
        ? {}
        : { dkim: { domainName: dkim.domainName, keySelector: dkim.keySelector, privateKey } }),
    }
  },
})
